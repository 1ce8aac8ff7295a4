"""The report of a run: outcome, usage and turns. No I/O.

Tokens by section are counted by ctxmgr; tokens sent and answered are the provider's figures, which
include the tool definitions and its own framing.
"""

import shlex
from dataclasses import dataclass, field

from ctxmgr.core.prices import PriceList
from ctxmgr.core.store.urls import redact_url
from ctxmgr.harness.loop import LoopOutcome
from ctxmgr.harness.loop_events import TurnEnded
from ctxmgr.harness.run import INTERRUPTED, Assignment, Run
from ctxmgr.settings import LoadedSettings
from ctxmgr.surfaces.operation import STREAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn."""

    turn: int
    tools: tuple[str, ...] = field(metadata=STREAMED)
    system: int
    """Tokens of the system prompt."""
    pool: int
    """Tokens of the metadata pool."""
    chat: int
    """Tokens of the chat."""
    content: int
    """Tokens of the active content."""
    sent: int | None
    """Tokens as the provider counts them; None: not reported."""
    cached: int | None
    answered: int | None
    usd: float | None
    """By the provider's figures and list prices; None: one of them is not known."""
    active: int
    """Objects shown in full after the turn."""
    metadata: int
    """Objects shown in one line."""
    indexed: int
    """Objects not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The result of a run."""

    session: str
    outcome: str
    answer: str = field(metadata=STREAMED)
    """The model's last message."""
    model_calls: int
    sent_tokens: int
    cache_read_tokens: int
    cache_written_tokens: int
    answer_tokens: int
    unmetered_calls: int
    """Calls for which the provider reported no usage."""
    usd: float | None
    """What the metered calls cost, by list price; None: the model's price is not known."""
    lost_answers: int
    """Answers that broke off and were requested again; their cost is unknown."""
    resume: str | None
    """The command that continues the run; None: it is done."""
    turns: list[TurnRow]

    @property
    def done(self) -> bool:
        return self.outcome == LoopOutcome.DONE

    @property
    def interrupted(self) -> bool:
        return self.outcome == INTERRUPTED


def report(run: Run, *, resume: str, prices: PriceList) -> RunReport:
    """Summarise a run."""
    usage = run.ledger.usage
    rows = [_row(turn, prices) for turn in run.turns]
    known = [row.usd for row in rows if row.usd is not None]
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
        resume=None if run.outcome == LoopOutcome.DONE else resume,
        usd=sum(known) if known else None,
        turns=rows,
    )


def resume_command(loaded: LoadedSettings, assignment: Assignment) -> str:
    """Return the command that continues a run, without the store's password."""
    words = ["ctxmgr", "run", "--session", assignment.session]
    store = loaded.settings.store
    if loaded.origins["store"] == "flag":
        words += ["--store", store if redact_url(store) == store else "URL"]
    return shlex.join(words)


def _row(turn: TurnEnded, prices: PriceList) -> TurnRow:
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
        usd=prices.usd(turn.charge.model, usage),
        active=turn.levels["active"],
        metadata=turn.levels["metadata"],
        indexed=turn.levels["indexed"],
    )
