"""Measures sessions that are longer than the window: our compaction against a common one.

    ours       fold, then show the oldest half of the prompt as a summary
    common     when the window is full, keep the last N messages and an extract of 2,000 tokens of
               everything before them: what the user said, and the beginning of each other message

Recorded sessions are joined to one of thousands of turns. Both prompts are evaluated as in
``judge``: cost with the provider's cache, and *keep* and *line* from the first compaction of ours
on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from typing import Final

from ctxmgr.bench.economy.judge import Judge, Score
from ctxmgr.bench.economy.needs import Need, needs
from ctxmgr.bench.economy.policies import Ours, context, parts
from ctxmgr.bench.economy.sent_messages import SentMessages
from ctxmgr.bench.economy.sessions import RecordedSession
from ctxmgr.bench.report import Figure, at_least, at_most
from ctxmgr.core.context.assembly import Context
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.policy import Economy, Prices
from ctxmgr.core.economy.stream_turns import StreamTurn, messages_of

TURNS: Final = 5_000
WINDOW_TOKENS: Final = 200_000
EXTRACT_TOKENS: Final = 2_000
"""Of the common compaction."""

KEPT_SHARES: Final = (0.1, 0.25, 0.5)
"""Shares of the window that the common compaction keeps of the last messages."""

LINE_CHARS: Final = 160
"""Of each message that is not the user's, in the extract."""


@dataclass(frozen=True, slots=True)
class LastMessages:
    """Keeps the last messages and an extract of all others whenever the window is full."""

    window_tokens: int
    keeps_tokens: int
    """The last messages that together have at most this many tokens."""

    @property
    def name(self) -> str:
        return f"last {self.keeps_tokens // 1000}k and an extract"

    def contexts(self, session: RecordedSession, *, count: Count) -> Iterator[Context]:
        turns: list[StreamTurn] = []
        sizes: list[int] = []
        first, extract, before = 0, "", count(session.system_prompt)
        for turn in session.turns:
            if before + sum(sizes[first:]) + count(turn.user) > self.window_tokens:
                kept, cut = 0, len(turns)
                while cut > first + 1 and kept + sizes[cut - 1] <= self.keeps_tokens:
                    cut -= 1
                    kept += sizes[cut]
                extract = self._extract(extract, turns[first:cut], count=count)
                first, before = cut, count(session.system_prompt) + count(extract)
            head = StreamTurn(extract, ())
            shown = [head, *turns[first:]] if extract else turns[first:]
            yield context(session, shown, user=turn.user)
            turns.append(StreamTurn(turn.user, tuple(parts(turn, number=len(turns) + 1))))
            texts = [text for text in messages_of(turns[-1]) if text]
            sizes.append(sum(count(text) + MESSAGE_TOKENS for text in texts))

    def _extract(self, before: str, turns: Sequence[StreamTurn], *, count: Count) -> str:
        """Return the newest lines that fit: of users whole messages, of others the beginning."""
        said = [
            line
            for turn in turns
            for line in chain([turn.user], (text[:LINE_CHARS] for text in messages_of(turn)))
            if line.strip()
        ]
        lines = [*before.split("\n"), *said]
        left, start = EXTRACT_TOKENS, len(lines)
        while start and (left := left - count(lines[start - 1]) - 1) >= 0:
            start -= 1
        return "\n".join(lines[start:])


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """One policy on the joined session."""

    policy: str
    cost: float
    keep: float
    """From the first compaction of ours on, as is the next."""
    line: float
    all_line: float
    breaks: int
    peak_tokens: int


def joined(sessions: Sequence[RecordedSession], *, turns: int) -> RecordedSession:
    """Return one session of so many turns, made of recorded ones, again and again."""
    all_turns = islice(cycle(turn for session in sessions for turn in session.turns), turns)
    first = sessions[0]
    return RecordedSession(
        session_id="joined", system_prompt=first.system_prompt, turns=tuple(all_turns)
    )


def measured(
    session: RecordedSession, *, window_tokens: int, count: Count, prices: Prices | None = None
) -> list[CompactionResult]:
    """Replay a session under our policy and the common one; ours is the first result."""
    needed, paid = needs(session), prices or Prices()
    replay = _Replay(session, needed, count, paid)
    ours = Ours(Economy(window_tokens=window_tokens))
    compacted = _Compacted()
    results = [replay.result(ours.name, compacted.contexts(ours, session, count), compacted)]
    for share in KEPT_SHARES:
        common = LastMessages(window_tokens, int(share * window_tokens))
        contexts = common.contexts(session, count=count)
        results.append(replay.result(common.name, contexts, compacted))
    return results


class _Compacted:
    """The first call whose prompt begins with a summary."""

    call: int | None = None

    def contexts(self, ours: Ours, session: RecordedSession, count: Count) -> Iterator[Context]:
        for call, (prompt, stream) in enumerate(ours.prompts(session, count=count), start=1):
            if self.call is None and stream.summary is not None:
                self.call = call
            yield prompt


@dataclass(frozen=True, slots=True)
class _Replay:
    session: RecordedSession
    needed: Sequence[tuple[Need, ...]]
    count: Count
    prices: Prices

    def result(
        self, name: str, contexts: Iterator[Context], compacted: _Compacted
    ) -> CompactionResult:
        judge, sent, early = Judge(count=self.count), SentMessages(count=self.count), Score()
        calls = zip(contexts, self.needed, self.session.turns, strict=True)
        for call, (prompt, need, turn) in enumerate(calls, start=1):
            if call == compacted.call:
                early = replace(judge.score)
            judge.judge(sent.of(prompt), need, answer=turn.raw)
        score = judge.score
        wanted = max(1, score.needed - early.needed)
        all_wanted = max(1, score.all_needed - early.all_needed)
        return CompactionResult(
            policy=name,
            cost=score.cost(self.prices),
            keep=(score.kept - early.kept) / wanted,
            line=(score.lines_kept - early.lines_kept) / wanted,
            all_line=(score.all_lines_kept - early.all_lines_kept) / all_wanted,
            breaks=score.breaks,
            peak_tokens=score.peak_tokens,
        )


def compaction_figures(
    sessions: Sequence[RecordedSession],
    *,
    count: Count,
    turns: int = TURNS,
    window_tokens: int = WINDOW_TOKENS,
    promised: bool = True,
) -> list[Figure]:
    """Return our compaction relative to the common one that keeps half of the window.

    The targets hold for sessions of thousands of turns; a short run only reports.
    """
    session = joined(sessions, turns=turns)
    ours, *_, common = measured(session, window_tokens=window_tokens, count=count)
    what = f"compaction, {turns:,} turns, {window_tokens // 1000}k window"
    against = f"{common.policy} of {EXTRACT_TOKENS:,} tokens"
    figures = [
        at_least(
            f"{what}: {name}",
            _ratio(getattr(ours, name), getattr(common, name)),
            bound=1,
            against=against,
            note=f"{getattr(ours, name):.3f} and {getattr(common, name):.3f}",
        )
        for name in ("keep", "line")
    ]
    cost = _ratio(ours.cost, common.cost)
    figures.append(at_most(f"{what}: cost", cost, bound=1, against=against))
    return figures if promised else [replace(figure, bound="", meets=None) for figure in figures]


def _ratio(ours: float, common: float) -> float:
    return ours / common if common else 1.0
