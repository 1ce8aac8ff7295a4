"""What a run comes to, for people as tables and for programs as JSON. Touches nothing.

What a section costs is counted by us; what was sent and answered are the provider's figures, which
hold the tools' definitions and its own framing besides.
"""

import shlex
from dataclasses import dataclass, field

from ctxmgr.harness.assignments import Assignment
from ctxmgr.harness.happenings import Finished
from ctxmgr.harness.loop import Outcome
from ctxmgr.harness.running import INTERRUPTED, Run
from ctxmgr.settings import Loaded
from ctxmgr.surfaces.catalogue import STREAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn."""

    turn: int
    tools: tuple[str, ...] = field(metadata=STREAMED)
    system: int
    """Tokens of the prompt, by section,"""
    pool: int
    chat: int
    content: int
    """the last being active content."""
    sent: int | None
    """Tokens as the provider counts them; None: it did not say."""
    cached: int | None
    answered: int | None
    active: int
    """Objects after the turn that are shown in full,"""
    metadata: int
    """as one line,"""
    indexed: int
    """and not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A run."""

    session: str
    outcome: str
    answer: str = field(metadata=STREAMED)
    """The model's last words."""
    model_calls: int
    sent_tokens: int
    cache_read_tokens: int
    cache_written_tokens: int
    answer_tokens: int
    unmetered_calls: int
    """Calls whose provider did not say what they cost."""
    lost_answers: int
    """Answers that broke off and were asked for again; what they cost nobody told."""
    resume: str | None
    """The command that goes on; None: there is nothing left to do."""
    turns: list[TurnRow]

    @property
    def done(self) -> bool:
        return self.outcome == Outcome.DONE

    @property
    def interrupted(self) -> bool:
        return self.outcome == INTERRUPTED


def report(run: Run, *, resume: str) -> RunReport:
    """Sum a run up."""
    usage = run.ledger.usage
    return RunReport(
        session=run.session,
        outcome=run.outcome,
        answer=run.answer,
        model_calls=run.ledger.calls,
        sent_tokens=usage.prompt_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_written_tokens=usage.cache_written_tokens,
        answer_tokens=usage.output_tokens,
        unmetered_calls=sum(cost.unmetered for cost in run.ledger.costs),
        lost_answers=run.lost,
        resume=None if run.outcome == Outcome.DONE else resume,
        turns=[_row(turn) for turn in run.turns],
    )


def resume_command(loaded: Loaded, assignment: Assignment) -> str:
    """Return the command that goes on with a run. A store's password is not repeated."""
    words = ["ctxmgr", "run", "--session", assignment.session]
    store = loaded.settings.store
    if loaded.origins["store"] == "flag":
        words += ["--store", "URL" if "@" in store else store]
    return shlex.join(words)


def _row(turn: Finished) -> TurnRow:
    usage = turn.charge.usage
    return TurnRow(
        turn=turn.turn,
        tools=turn.tools,
        system=turn.sections.get("system_prompt", 0),
        pool=turn.sections.get("metadata_pool", 0),
        chat=turn.sections.get("chat", 0),
        content=turn.sections.get("active_content", 0),
        sent=None if usage is None else usage.prompt_tokens,
        cached=None if usage is None else usage.cache_read_tokens,
        answered=None if usage is None else usage.output_tokens,
        active=turn.levels["active"],
        metadata=turn.levels["metadata"],
        indexed=turn.levels["indexed"],
    )
