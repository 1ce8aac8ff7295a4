"""ContextCompiler: what of the notes and of the history a prompt gets. Reads the clock.

    system, identity ─► memory, journal, projects ─► topics, subscriptions ─► knowledge ─► history
    each path once; each slot within its share; the whole never above the budget

Tokens are counted with the vocabulary of the model. Counts are cached by text, so that notes that
did not change are not counted again.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

from ctxmgr.core.context.tokens import TokenCounter, vocabulary
from ctxmgr.core.store.contract import Instant
from ctxmgr.knowledge.compiler.compiled import (
    SEPARATOR,
    ActiveTopic,
    Compiled,
    CompiledSection,
    HistoryMessage,
    KnowledgeFile,
    LeftOut,
    PromptSlot,
)
from ctxmgr.knowledge.compiler.scoring import (
    SCORE_MIN,
    NoteRelevance,
    Relevance,
    ScoredNotes,
    knowledge_query,
    score_notes,
)
from ctxmgr.knowledge.config import CompilerConfig, KnowledgeConfig
from ctxmgr.knowledge.notes.layout import IDENTITY_FILES, Category, day_of, is_archived
from ctxmgr.knowledge.notes.sections import one_line

TOKENS_PER_KB: Final = 256
"""Budgets in KB are caps in tokens: 1,024 bytes at four bytes each, as English text has."""

KNOWLEDGE_TOKENS_MIN: Final = 100
"""With less space left, no more notes are added."""

MISSES_MAX: Final = 20
"""Notes that do not fit, after which no worse ones are tried."""

LINE_CHARS_MAX: Final = 160
"""Of a tool result in a history that does not fit whole."""

TOKEN_CHARS_MAX: Final = 20
"""A text to be cut is looked at for so many characters per token; few tokens are longer."""

CUT: Final = "[…]"
"""Where a text was cut."""

_JOINT_TOKENS: Final = 1
"""What joining two sections may add to the sum of their counts."""

_COMMENT: Final = re.compile(
    r"<!--(?=\s*(?:system|identity|memory|journal|projects|topic:|sub:|knowledge:|history:))"
)
"""What looks like a comment of ours. In a note it is escaped, or a note could pretend to be one of
the sections that a person writes."""

_log = logging.getLogger(__name__)


class ContextCompiler:
    """Compiles contexts under one configuration. Keeps token counts between calls."""

    def __init__(
        self,
        config: KnowledgeConfig | None = None,
        *,
        relevance: Relevance | None = None,
        count: Callable[[str], int] | None = None,
    ) -> None:
        """``relevance`` compares a query with notes; without it, no notes are scored.

        ``count`` counts tokens; by default the vocabulary of ``config.compiler.tokenizer`` does.
        """
        self.config = config or KnowledgeConfig()
        model = self.config.compiler.tokenizer
        counter = TokenCounter(vocabulary(model) if model else None)
        self._count = count or counter.count
        self._relevance = relevance

    def compile(
        self,
        message: str,
        active_topics: Sequence[ActiveTopic] = (),
        session_history: Sequence[HistoryMessage] = (),
        available_knowledge: Sequence[KnowledgeFile] = (),
    ) -> str:
        """Return the context for a message, as it is now, in the main session."""
        now = int(datetime.now(UTC).timestamp() * 1000)
        return self.plan(message, active_topics, session_history, available_knowledge, now=now).text

    def plan(
        self,
        message: str,
        active_topics: Sequence[ActiveTopic] = (),
        session_history: Sequence[HistoryMessage] = (),
        available_knowledge: Sequence[KnowledgeFile] = (),
        *,
        now: Instant,
        main: bool = True,
        remarks: Mapping[str, str] | None = None,
        budget_tokens: int | None = None,
    ) -> Compiled:
        """Compile, and say what was included and what was left out.

        ``main`` says whether this is a person's own session; only there the core memory is shown.
        ``remarks`` by topic, such as corrections, are shown before its instructions.
        """
        plan = _Plan(
            config=self.config.compiler,
            count=self._count,
            budget=self.config.compiler.token_budget if budget_tokens is None else budget_tokens,
            files={file.path: file for file in available_knowledge if not file.already_included},
            main=main,
        )
        for file in available_knowledge:
            if file.already_included:
                plan.leave(PromptSlot.KNOWLEDGE, file.path, "already in the prompt")
        talk = [each for each in session_history if each.role != "system"]
        plan.reserve(message, talk)
        plan.add_fixed([each for each in session_history if each.role == "system"], now)
        topics = sorted(active_topics, key=lambda topic: (-topic.priority_score, topic.name))
        for topic in topics:
            plan.add_topic(topic, (remarks or {}).get(topic.name, ""))
        candidates = plan.candidates()
        fits: Mapping[str, NoteRelevance] = {}
        if self._relevance is not None and candidates:
            # All of them, whatever is shown already: an index of the notes then stays as it is.
            fits = self._relevance(knowledge_query(message, topics), plan.scorable())
        plan.add_knowledge(score_notes(candidates, fits, now=now, weights=self.config.search))
        plan.add_history(talk)
        return plan.compiled()


@dataclass(slots=True, kw_only=True)
class _Plan:
    """One compilation: what is in, what is out, and what is left of the budget."""

    config: CompilerConfig
    count: Callable[[str], int]
    budget: int
    files: Mapping[str, KnowledgeFile]
    main: bool
    by_category: dict[str, list[KnowledgeFile]] = field(default_factory=dict, init=False)
    """Without archived notes, which are not shown by themselves."""
    sections: list[CompiledSection] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    used: int = 0
    message_tokens: int = 0
    history_tokens: int = 0
    """Kept for the newest messages until it is their turn."""

    def __post_init__(self) -> None:
        for file in self.files.values():
            if not is_archived(file.path):
                self.by_category.setdefault(file.category, []).append(file)

    # Budget

    def reserve(self, message: str, talk: Sequence[HistoryMessage]) -> None:
        """Keep room for the message itself, which follows the text, and for the newest history."""
        share = int(self.budget * self.config.history_share)
        self.message_tokens = min(self.count(message), share)
        wanted = 0
        for entry in reversed(talk):
            wanted += self.count(entry.text) + _JOINT_TOKENS
            if wanted >= share - self.message_tokens:
                break
        self.history_tokens = min(wanted, share - self.message_tokens)

    @property
    def remaining(self) -> int:
        return self.budget - self.used - self.message_tokens - self.history_tokens

    def cost(self, text: str) -> int:
        return self.count(text) + (_JOINT_TOKENS if self.sections else 0)

    def add(self, section: CompiledSection) -> None:
        self.used += self.cost(section.text)
        self.sections.append(section)
        if section.path is not None:
            self.shown.add(section.path)

    def leave(
        self,
        slot: PromptSlot,
        name: str,
        reason: str,
        *,
        tokens: int | None = None,
        score: float | None = None,
    ) -> None:
        self.left_out.append(
            LeftOut(slot=slot, name=name, reason=reason, tokens=tokens, score=score)
        )

    # P0 and P1

    def add_fixed(self, system: Sequence[HistoryMessage], now: Instant) -> None:
        config = self.config
        texts = [(f"message {number}", entry.text) for number, entry in enumerate(system, 1)]
        self._add_always(PromptSlot.SYSTEM, texts, _tokens(config.system_budget_kb))
        identity = sorted(self._of(Category.IDENTITY), key=_identity_order)
        paths = [(file.path, file.text) for file in identity]
        self._add_always(PromptSlot.IDENTITY, paths, _tokens(config.identity_budget_kb))
        memory = [file for file in self._of(Category.MEMORY) if _name(file) == "memory.md"]
        if self.main:
            self._add_within(PromptSlot.MEMORY, memory, _tokens(config.memory_budget_kb))
        else:
            for file in self._of(Category.MEMORY):
                self.leave(PromptSlot.MEMORY, file.path, "shown in the main session only")
        today = datetime.fromtimestamp(now / 1000, UTC).date()
        days = {file.path: day_of(file.path) for file in self._of(Category.JOURNAL)}
        journals = [
            self.files[path]
            for day in (today, today - timedelta(days=1))
            for path, its_day in sorted(days.items())
            if its_day == day
        ]
        # The end of a journal is the newest part of it.
        self._add_within(
            PromptSlot.JOURNAL, journals, _tokens(config.journal_budget_kb), keep_end=True
        )
        active = [file for file in self._of(Category.PROJECT) if _name(file) == "_active.md"]
        self._add_within(PromptSlot.PROJECTS, active, _tokens(config.projects_budget_kb))

    def _of(self, category: Category) -> list[KnowledgeFile]:
        return self.by_category.get(category, [])

    def _add_always(self, slot: PromptSlot, texts: Sequence[tuple[str, str]], share: int) -> None:
        """Show every text; if they exceed their share, the longest are cut."""
        texts = [(name, text.strip()) for name, text in texts if text.strip()]
        rendered = [_section_text(slot.value, text) for _, text in texts]
        whole = [self.count(text) + _JOINT_TOKENS for text in rendered]
        shares = _fair_shares(whole, max(0, min(share, self.remaining)))
        for (name, text), section, tokens, granted in zip(
            texts, rendered, whole, shares, strict=True
        ):
            path = name if slot is PromptSlot.IDENTITY else None
            shown = section if tokens <= granted else ""
            if not shown:
                _log.warning("%s is cut from %d to %d tokens", name, tokens, granted)
                shown = self._cut(slot.value, text, granted)
            if not shown:
                self.leave(slot, name, f"no room for {tokens} tokens", tokens=tokens)
                continue
            self._add_section(slot, slot.value, shown, path=path, whole=tokens)

    def _add_within(
        self,
        slot: PromptSlot,
        files: Sequence[KnowledgeFile],
        share: int,
        *,
        keep_end: bool = False,
    ) -> None:
        """Show notes within the share of their slot; what is cut to it has to fit whole."""
        for file in files:
            if not file.text.strip() or file.path in self.shown:
                continue
            section = _section_text(slot.value, _with_remark(file, file.text))
            tokens = self.count(section) + _JOINT_TOKENS
            if tokens > share:
                text, remark = file.text.strip(), _with_remark(file, "")
                section = self._cut(slot.value, text, share, remark=remark, keep_end=keep_end)
            cost = self.count(section) + _JOINT_TOKENS
            if not section or cost > self.remaining:
                reason = f"needs {min(tokens, share)} tokens, {max(0, self.remaining)} are left"
                self.leave(slot, file.path, reason, tokens=tokens)
                continue
            share -= cost
            self._add_section(slot, slot.value, section, path=file.path, whole=tokens)

    def _add_section(
        self, slot: PromptSlot, name: str, text: str, *, path: str | None, whole: int
    ) -> None:
        tokens = self.count(text)
        self.add(
            CompiledSection(
                slot=slot,
                name=name,
                text=text,
                tokens=tokens,
                path=path,
                cut_tokens=max(0, whole - _JOINT_TOKENS - tokens),
            )
        )

    def _cut(
        self, name: str, text: str, tokens: int, *, remark: str = "", keep_end: bool = False
    ) -> str:
        """Return a section with as much of a text as fits, at a line if there is one nearby."""
        tokens -= _JOINT_TOKENS
        chars = max(0, tokens) * TOKEN_CHARS_MAX
        text = text[-chars or len(text) :] if keep_end else text[:chars]

        def section(length: int) -> str:
            part = text[len(text) - length :] if keep_end else text[:length]
            ends = (f"{CUT}\n", "") if keep_end else ("", f"\n{CUT}")
            return _section_text(name, f"{remark}{ends[0]}{part.strip()}{ends[1]}")

        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.count(section(middle)) <= tokens:
                low = middle
            else:
                high = middle - 1
        for length in (_at_line(text, low, keep_end=keep_end), low):
            if length and self.count(section(length)) <= tokens:
                return section(length)
        return ""

    # P2

    def add_topic(self, topic: ActiveTopic, remark: str) -> None:
        """Show the instructions of a topic and then its subscriptions, each whole or not."""
        allowed = _tokens(topic.max_context_kb)
        instructions = topic.render_instructions().strip()
        text = SEPARATOR.join(part for part in (remark, instructions) if part)
        if text:
            name = f"topic:{topic.name}"
            allowed -= self._add_for_topic(
                PromptSlot.TOPIC, name, text, topic=topic, allowed=allowed
            )
        for wanted in topic.subscriptions:
            path = next(
                (each for each in (wanted, f"knowledge/{wanted}") if each in self.files), ""
            )
            reason = self._why_not_subscribed(path)
            if reason:
                self.leave(PromptSlot.SUBSCRIPTION, wanted, f"{reason} (topic {topic.name})")
                continue
            text = _with_remark(self.files[path], self.files[path].text)
            allowed -= self._add_for_topic(
                PromptSlot.SUBSCRIPTION,
                f"sub:{path}",
                text,
                topic=topic,
                allowed=allowed,
                path=path,
            )

    def _why_not_subscribed(self, path: str) -> str:
        if not path:
            return "there is no such note"
        if path in self.shown:
            return "already shown"
        file = self.files[path]
        if file.category == Category.MEMORY and not self.main:
            return "shown in the main session only"
        if file.category == Category.TOPIC:
            return "a topic, which is shown when it is active"
        return "" if file.text.strip() else "empty"

    def _add_for_topic(
        self,
        slot: PromptSlot,
        name: str,
        text: str,
        *,
        topic: ActiveTopic,
        allowed: int,
        path: str | None = None,
    ) -> int:
        """Add a section of a topic if it fits; return what it cost."""
        section = _section_text(name, text)
        cost = self.cost(section)
        spent = sum(each.tokens + _JOINT_TOKENS for each in self.sections if each.topic is not None)
        share = _tokens(self.config.topic_budget_kb) - spent
        room = min(allowed, share, self.remaining)
        if cost > room:
            limits = {
                allowed: f"max_context_kb of {topic.name}",
                share: "topic_budget_kb",
                self.remaining: "the budget",
            }
            reason = f"needs {cost} tokens, {max(0, room)} are left of {limits[room]}"
            self.leave(slot, path or topic.name, reason, tokens=cost)
            return 0
        self.add(
            CompiledSection(
                slot=slot,
                name=name,
                text=section,
                tokens=self.count(section),
                path=path,
                topic=topic.name,
            )
        )
        return cost

    # P3

    def candidates(self) -> list[KnowledgeFile]:
        """Return the notes that may be shown by their score, and are not shown yet."""
        scorable = self.scorable()
        return [file for file in scorable if file.path not in self.shown and file.text.strip()]

    def scorable(self) -> list[KnowledgeFile]:
        hidden = {Category.IDENTITY, Category.TOPIC, Category.CONVERSATION}
        if not self.main:
            hidden.add(Category.MEMORY)
        kept = [files for name, files in self.by_category.items() if name not in hidden]
        return list(chain.from_iterable(kept))

    def add_knowledge(self, notes: ScoredNotes) -> None:
        misses = 0
        for item in notes.best:
            if item.score <= SCORE_MIN:
                reason = f"scores {item.score:.3f}, not above {SCORE_MIN}"
            elif self.remaining < KNOWLEDGE_TOKENS_MIN:
                reason = f"fewer than {KNOWLEDGE_TOKENS_MIN} tokens are left"
            elif misses == MISSES_MAX:
                reason = "better notes fill the budget"
            else:
                snippet = _with_remark(self.files[item.path], item.snippet)
                section = _section_text(f"knowledge:{item.path}", snippet)
                cost = self.cost(section)
                if cost <= self.remaining:
                    self.add(
                        CompiledSection(
                            slot=PromptSlot.KNOWLEDGE,
                            name=f"knowledge:{item.path}",
                            text=section,
                            tokens=self.count(section),
                            path=item.path,
                            score=item.score,
                        )
                    )
                    continue
                misses += 1
                reason = f"needs {cost} tokens, {max(0, self.remaining)} are left"
            self.leave(PromptSlot.KNOWLEDGE, item.path, reason, score=item.score)
        if notes.others:
            self.leave(
                PromptSlot.KNOWLEDGE,
                f"{notes.others:,} other notes",
                f"{len(notes.best)} notes score at least as much",
            )

    # P4

    def add_history(self, talk: Sequence[HistoryMessage]) -> None:
        """Fill what is left with the newest messages; show them in the order of time."""
        self.history_tokens = 0
        texts = [_message_text(entry, number) for number, entry in enumerate(talk, 1)]
        costs = [self.count(text) + _JOINT_TOKENS for text in texts]
        if sum(costs) > self.remaining:
            texts = [
                _message_text(_shortened(entry), number) for number, entry in enumerate(talk, 1)
            ]
            costs = [self.count(text) + _JOINT_TOKENS for text in texts]
        first, room = len(talk), self.remaining
        while first and costs[first - 1] <= room:
            first -= 1
            room -= costs[first]
        for number, entry in enumerate(talk[:first], 1):
            reason = "older than the messages that fit"
            if number == first:
                reason = f"needs {costs[first - 1]} tokens, {max(0, room)} are left"
            self.leave(PromptSlot.HISTORY, f"{number} {entry.role}", reason)
        for number, entry in enumerate(talk[first:], first):
            self.add(
                CompiledSection(
                    slot=PromptSlot.HISTORY,
                    name=f"history:{number + 1}:{entry.role}",
                    text=texts[number],
                    tokens=self.count(texts[number]),
                )
            )

    # The result

    def compiled(self) -> Compiled:
        """Join the sections. The count of the whole decides, not the sum of the parts."""
        while True:
            text = SEPARATOR.join(section.text for section in self.sections)
            tokens = self.count(text)
            if tokens <= self.budget:
                break
            dropped = self._least()
            self.sections.remove(dropped)
            name = dropped.path or dropped.name
            self.leave(dropped.slot, name, "exceeds the budget", tokens=dropped.tokens)
        return Compiled(
            text=text,
            tokens=tokens,
            budget_tokens=self.budget,
            included=tuple(self.sections),
            left_out=tuple(self.left_out),
        )

    def _least(self) -> CompiledSection:
        """The oldest message, else the last section."""
        history = [each for each in self.sections if each.slot is PromptSlot.HISTORY]
        return history[0] if history else self.sections[-1]


def _tokens(kb: float) -> int:
    return int(kb * TOKENS_PER_KB)


def _section_text(name: str, text: str) -> str:
    shown = name.replace("--", "- -").replace("\n", " ")
    body = _COMMENT.sub(r"<\\!--", text) if "<!--" in text else text
    return f"<!-- {shown} -->\n{body}"


def _with_remark(file: KnowledgeFile, text: str) -> str:
    remark = f"({one_line(file.remark)})\n\n" if file.remark else ""
    return remark + text.strip()


def _message_text(entry: HistoryMessage, number: int) -> str:
    return _section_text(f"history:{number}:{entry.role}", entry.text.strip())


def _shortened(entry: HistoryMessage) -> HistoryMessage:
    """Return a tool result as one line."""
    if entry.role != "tool":
        return entry
    lines = entry.text.strip().splitlines() or [""]
    line = lines[0][:LINE_CHARS_MAX]
    if len(lines) > 1 or len(lines[0]) > LINE_CHARS_MAX:
        line += f" {CUT}"
    return HistoryMessage(role=entry.role, text=line)


def _fair_shares(wanted: Sequence[int], total: int) -> list[int]:
    """Divide tokens so that short texts get all they want, and long ones the same."""
    shares = [0] * len(wanted)
    for done, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[index] = min(wanted[index], total // (len(wanted) - done))
        total -= shares[index]
    return shares


def _at_line(text: str, length: int, *, keep_end: bool) -> int:
    """Return a length at a line's end, if that keeps most of the text."""
    if keep_end:
        start = text.find("\n", len(text) - length)
        found = len(text) - start - 1 if start >= 0 else 0
    else:
        found = text.rfind("\n", 0, length)
    return found if 2 * found >= length else length


def _identity_order(file: KnowledgeFile) -> tuple[int, str]:
    name = file.path.rpartition("/")[2]
    known = list(IDENTITY_FILES)
    return (known.index(name) if name in known else len(known), file.path)


def _name(file: KnowledgeFile) -> str:
    return file.path.rpartition("/")[2].casefold()
