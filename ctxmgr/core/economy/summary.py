"""The summary that replaces the oldest turns of a session in its prompts. Pure.

    [turns 1–240 are summarised here …]
    The user said:
    (turn 1) Build the parser.                        verbatim
    Notes:
    (turn 3) I'll use argparse because …              decisions and findings of the assistant
    Files changed: src/parser.py #12
    Failures:
    #31 bash pytest -q: E assert 1 == 2; then ok in #40
    Seen:
    [#17 read parser.py]
    def parse_header(line: str) -> Header:            whole lines with names that stand nowhere else
    Names: parse_body ParseError                      further names

A summary is made from the turns as they were shown, without a model, and from the summary before
it, which it replaces. A model may write the notes instead; the rest is never left to it. Each part
has a share of the budget, so that a summary has the same size however long the session is: what the
user said first and last stays longest, of everything else the newest. It is stored by its parts,
and its text follows from them.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, Self, TypeAlias

from ctxmgr.core.discovery.known_tools import OutputKind, named_path, output_kind
from ctxmgr.core.economy.folding import (
    ERROR,
    Count,
    FoldableText,
    FoldLimits,
    TextView,
    digest_view,
    line_text,
    visible_spans,
)
from ctxmgr.core.economy.stream_turns import HeldTurn, TextSlot, turn_number
from ctxmgr.core.economy.visible_names import VisibleNames, identifiers
from ctxmgr.core.objects.answers import AnswerCall
from ctxmgr.core.store.canonical import canonical

Mask: TypeAlias = Callable[[str], str]
"""Masks the secrets of a text."""

USER_SHARE: Final = 0.25
NOTES_SHARE: Final = 0.15
FILES_SHARE: Final = 0.05
FAILURES_SHARE: Final = 0.1
NAMES_SHARE: Final = 0.4
"""The parts of a budget; names take theirs from what the others leave, and lines take the rest."""

ENTRY_SHARE: Final = 0.25
"""The share of its part that one entry may take; a longer one is cut."""

SENTENCE_CHARS_MAX: Final = 300
LINE_CHARS_MAX: Final = 200
"""Characters of a sentence of the assistant, and of the line that reports a failure."""

CHARS_PER_TOKEN: Final = 3
"""For cutting a text to a number of tokens; most texts have more."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_DECISION = re.compile(
    r"\b(?:decid\w+|cho[os]se\w*|instead|because|so that|must|never|always|I'll|I will|let's|"
    r"cause|problem|bug|turns out|fixe[sd]|done|works?|pass(?:es|ed)|fail(?:s|ed)|confirm\w*|"
    r"found|conclu\w+|need(?:s|ed)? to|plan)\b",
    re.IGNORECASE,
)
"""Words of sentences that say what was decided or found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call that failed, and what came of it."""

    handle: str
    call: str
    """Tool and arguments."""
    line: str
    """The line of its output that says why."""
    solved: str = ""
    """The handle of a later call with the same arguments that succeeded."""

    @property
    def text(self) -> str:
        outcome = f"; then ok in {self.solved}" if self.solved else ""
        return f"{self.handle} {self.call}: {self.line}{outcome}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What prompts show instead of the first turns of a session."""

    turns: int
    """The last turn that it covers; the first is turn 1."""
    number: int = 0
    """How many compactions it is the result of."""
    user: tuple[tuple[int, str], ...] = field(default=(), repr=False)
    """Turn and text of the user's messages."""
    omitted: int = 0
    """Messages of the user that are left out."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Path → the handle of the call that changed it last."""
    failures: tuple[Failure, ...] = field(default=(), repr=False)
    lines: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Label of a text, and a line that stood in it, without its newline."""
    names: tuple[str, ...] = field(default=(), repr=False)

    @property
    def text(self) -> str:
        """The text that prompts show; it ends with a newline."""
        return "\n".join(self._text()).rstrip("\n") + "\n"

    def _text(self) -> Iterator[str]:
        yield (
            f"[turns 1–{self.turns} are summarised here and not shown any more; they are stored "
            "whole, and activate shows an object again by its handle, such as #1]"
        )
        if self.user:
            yield "The user said:"
            left = self.omitted
            for turn, text in self.user:
                yield f"(turn {turn}) {text}"
                if left:
                    yield f"⋯ {left} messages"
                    left = 0
        if self.notes:
            yield "Notes:"
            yield from self.notes
        if self.files:
            changed = (f"{path} {handle}" for path, handle in self.files.items())
            yield "Files changed: " + ", ".join(changed)
        if self.failures:
            yield "Failures:"
            yield from (failure.text for failure in self.failures)
        if self.lines:
            yield "Seen:"
            for label, group in groupby(self.lines, key=lambda line: line[0]):
                yield f"[{label}]"
                yield from (line for _, line in group)
        if self.names:
            yield "Names: " + " ".join(self.names)

    def masked(self, mask: Mask) -> Self:
        """Return the summary without the secrets of its parts."""
        return replace(
            self,
            user=tuple((turn, mask(text)) for turn, text in self.user),
            notes=tuple(map(mask, self.notes)),
            files={mask(path): handle for path, handle in self.files.items()},
            failures=tuple(
                replace(item, call=mask(item.call), line=mask(item.line)) for item in self.failures
            ),
            lines=tuple((mask(label), mask(line)) for label, line in self.lines),
            names=tuple(name for name in self.names if mask(name) == name),
        )

    def to_value(self) -> dict[str, Any]:
        return {
            "turns": self.turns,
            "number": self.number,
            "user": [list(said) for said in self.user],
            "omitted": self.omitted,
            "notes": list(self.notes),
            "files": dict(self.files),
            "failures": [
                [item.handle, item.call, item.line, item.solved] for item in self.failures
            ],
            "lines": [list(line) for line in self.lines],
            "names": list(self.names),
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Self:
        failures = (
            Failure(handle=handle, call=call, line=line, solved=solved)
            for handle, call, line, solved in value["failures"]
        )
        return cls(
            turns=int(value["turns"]),
            number=int(value["number"]),
            user=tuple((int(turn), str(text)) for turn, text in value["user"]),
            omitted=int(value["omitted"]),
            notes=tuple(value["notes"]),
            files=dict(value["files"]),
            failures=tuple(failures),
            lines=tuple((label, line) for label, line in value["lines"]),
            names=tuple(value["names"]),
        )


def unmasked(text: str) -> str:
    """Show the secrets of a text."""
    return text


def summarised(
    turns: Sequence[HeldTurn],
    *,
    before: Summary | None,
    views: Mapping[str, TextView],
    visible: VisibleNames,
    notes: str = "",
    budget: int,
    count: Count,
    mask: Mask = unmasked,
) -> Summary:
    """Return the summary of what ``before`` summarised and of the turns after it.

    ``views`` say what was shown of the turns, and ``visible`` what is still shown besides them.
    ``notes`` are written by a model, which has read those of the summary before; if they are empty,
    sentences of the assistant are chosen. The turns may have been shown with secrets that are to be
    masked now: ``mask`` is given whole texts where it can be, to recognise secrets of many lines.
    """
    before = before or Summary(turns=0)
    user, omitted = _user(before, turns, mask, budget=int(USER_SHARE * budget), count=count)
    notes_budget = int(NOTES_SHARE * budget)
    own_notes = tuple(_notes(before, turns, notes, mask, budget=notes_budget, count=count))
    files = _files(before, turns, budget=int(FILES_SHARE * budget), count=count)
    failures = _failures(before, turns, mask, budget=int(FAILURES_SHARE * budget), count=count)
    head = Summary(
        turns=turns[-1].number,
        number=before.number + 1,
        user=user,
        omitted=omitted,
        notes=own_notes,
        files=files,
        failures=failures,
    ).masked(mask)
    known = set(identifiers(head.text))
    left = max(0, budget - count(head.text))
    names_budget = int(NAMES_SHARE * left)
    seen = [_SeenText(slot, views.get(slot.key), mask) for slot in _shown_slots(turns, views)]
    lines = _lines(before, seen, visible, budget=left - names_budget, count=count)
    known.update(name for _, line in lines for name in identifiers(line))
    names = _names(before, seen, visible, known, budget=names_budget, count=count)
    return replace(head, lines=lines, names=names).masked(mask)


def _cut(text: str, *, tokens: int, count: Count) -> str:
    """Return a text, or the beginning and the end of one that is too long."""
    if count(text) <= tokens:
        return text
    half = max(1, tokens * CHARS_PER_TOKEN // 2)
    hidden = len(text) - 2 * half
    return text if hidden <= 0 else f"{text[:half]}⋯ {hidden} characters ⋯{text[-half:]}"


def _user(
    before: Summary, turns: Sequence[HeldTurn], mask: Mask, *, budget: int, count: Count
) -> tuple[tuple[tuple[int, str], ...], int]:
    """Return what the user said: the first message, then the newest; and how many are left out."""
    said = [*before.user, *((turn.number, mask(turn.user)) for turn in turns if turn.user)]
    entry = max(1, int(ENTRY_SHARE * budget))
    whole = sum(count(text) for _, text in said) <= budget
    cut = said if whole else [(turn, _cut(text, tokens=entry, count=count)) for turn, text in said]
    newest = _newest(cut[1:], [text for _, text in cut[1:]], budget=budget - entry, count=count)
    kept = [*cut[:1], *(cut[1:] if whole else newest)]
    return tuple(kept), before.omitted + len(said) - len(kept)


def _newest(
    entries: Sequence[Any], texts: Sequence[str], *, budget: int, count: Count
) -> list[Any]:
    """Return the newest entries whose texts fit together, in their order."""
    left, first = budget, len(entries)
    while first and (left := left - count(texts[first - 1]) - 1) >= 0:
        first -= 1
    return list(entries[first:])


def _notes(
    before: Summary, turns: Sequence[HeldTurn], notes: str, mask: Mask, *, budget: int, count: Count
) -> Iterable[str]:
    if notes:
        return (_cut(notes, tokens=budget, count=count),)
    found = dict.fromkeys(before.notes)
    for turn in turns:
        for text in turn.prose():
            for sentence in _SENTENCE.split(mask(text)):
                if _DECISION.search(sentence) and len(sentence) <= SENTENCE_CHARS_MAX:
                    found[f"(turn {turn.number}) {sentence.strip()}"] = None
    sentences = list(found)
    return _newest(sentences, sentences, budget=budget, count=count)


def _files(
    before: Summary, turns: Sequence[HeldTurn], *, budget: int, count: Count
) -> dict[str, str]:
    files = dict(before.files)
    for call in _calls(turns):
        path = named_path(call.args)
        if path and output_kind(call.ref.tool, call.args) is OutputKind.WRITE:
            files.pop(path, None)
            files[path] = call.handle
    entries = list(files.items())
    texts = [f"{path} {handle}" for path, handle in entries]
    return dict(_newest(entries, texts, budget=budget, count=count))


def _failures(
    before: Summary, turns: Sequence[HeldTurn], mask: Mask, *, budget: int, count: Count
) -> tuple[Failure, ...]:
    """Return what failed and what came of it; of equal calls that fail again, the last."""
    failures = {failure.call: failure for failure in before.failures}
    for turn in turns:
        for call, slot in turn.outputs():
            name = _called(call, mask)
            if slot.failed:
                failures.pop(name, None)
                failures[name] = Failure(handle=slot.handle, call=name, line=_reason(slot, mask))
            elif name in failures and not failures[name].solved:
                failed = failures[name]
                failures[name] = Failure(
                    handle=failed.handle, call=name, line=failed.line, solved=slot.handle
                )
    entries = list(failures.values())
    texts = [failure.text for failure in entries]
    return tuple(_newest(entries, texts, budget=budget, count=count))


def _called(call: AnswerCall, mask: Mask) -> str:
    args = mask(canonical(dict(call.args)).decode())
    return " ".join(f"{call.ref.tool} {args}".split())[:LINE_CHARS_MAX]


def _reason(slot: TextSlot, mask: Mask) -> str:
    """Return the line of a failed call's output that says most about it."""
    lines = [line.strip() for line in mask(slot.content).splitlines() if line.strip()]
    errors = [line for line in lines if ERROR.search(line)]
    return (errors or lines or ["no output"])[-1][:LINE_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class _SeenText:
    """A text of the stream, as it was shown."""

    slot: TextSlot
    view: TextView | None
    mask: Mask

    def lines(self) -> Iterator[str]:
        """Yield the lines that were shown; of a secret over several lines, none."""
        content = self.slot.content
        masked = self.mask(content)
        for span in visible_spans(content, self.view):
            line = line_text(content, span).removesuffix("\n")
            if masked == content or line in masked:
                yield line
            elif (hidden := self.mask(line)) != line:
                yield hidden

    def names(self) -> Iterator[str]:
        yield from identifiers("\n".join(self.lines()))
        if self.view is not None:
            content = self.slot.content
            masked = self.mask(content)
            names = self.view.names
            yield from (name for name in names if masked == content or name in masked)


def _lines(
    before: Summary,
    seen: Sequence[_SeenText],
    visible: VisibleNames,
    *,
    budget: int,
    count: Count,
) -> tuple[tuple[str, str], ...]:
    """Choose lines as folding does, by names that are visible nowhere else; newer ones first."""
    shown = ((text.slot.label, line) for text in seen for line in text.lines() if line.strip())
    candidates = [*before.lines, *shown][::-1]
    starts, position = [], 0
    for _, line in candidates:
        starts.append(position)
        position += len(line) + 1
    text = FoldableText.of("".join(f"{line}\n" for _, line in candidates), count=count)
    limits = FoldLimits(tokens=budget, names_tokens=0)
    view = digest_view(text, limits=limits, visible=visible, count=count)
    chosen = {bisect_right(starts, line.start) - 1 for line in visible_spans(text.content, view)}
    return tuple(candidates[row] for row in sorted(chosen, reverse=True))


def _shown_slots(turns: Sequence[HeldTurn], views: Mapping[str, TextView]) -> Iterator[TextSlot]:
    for turn in turns:
        if not turn.is_digest(views):
            yield from turn.slots()
            continue
        yield from (slot for slot in turn.slots() if not slot.message)
        yield from turn.digest_slots()


def _names(
    before: Summary,
    seen: Sequence[_SeenText],
    visible: VisibleNames,
    known: set[str],
    *,
    budget: int,
    count: Count,
) -> tuple[str, ...]:
    """Return names that are visible nowhere else, the newest first."""
    newest_first = sorted(seen, key=lambda text: -turn_number(text.slot.key))
    held = [name for text in newest_first for name in text.names()]
    names, left = list[str](), budget
    for name in dict.fromkeys([*held, *before.names]):
        if name in known or name.isdigit() or visible.anywhere(name):
            continue
        left -= count(" " + name)
        if left < 0:
            break
        names.append(name)
    return tuple(names)


def _calls(turns: Sequence[HeldTurn]) -> Iterator[AnswerCall]:
    for turn in turns:
        yield from (part for part in turn.parts if isinstance(part, AnswerCall))
