"""Tell two stores the same history, ask both the same questions, report where they differ.

Touches the two stores it is given. Each answer is also held against the oracle; in a burst, where
two stores share milliseconds differently, only that is possible. Where the two differ on what
valid time means, XTDB is right.
"""

import asyncio
from typing import Final

from ctxmgr.bench.histories import Change, Guard, History, Step
from ctxmgr.bench.retelling import Answer, Retelling
from ctxmgr.core.store import Store

SHOWN_MAX: Final = 2_000
"""Characters of one answer in a report; a large text says nothing more at greater length."""


async def disagreements(a: Store, b: Store, history: History) -> list[str]:
    """Say in words where the stores differ; empty: nowhere."""
    here, there = await asyncio.gather(Retelling(a).tell(history), Retelling(b).tell(history))
    for number, outcomes in enumerate(zip(here.outcomes, there.outcomes, strict=True)):
        if outcomes[0] != outcomes[1]:
            return [_report(history, f"conflicts of step {number}", *map(list, outcomes))]
    found: list[str] = []
    for question in history.questions:
        one, other = await asyncio.gather(here.ask(question), there.ask(question))
        rules = here.expect(question), there.expect(question)
        if (not history.burst and one != other) or (one, other) != rules:
            found.append(_report(history, str(question), one, other, *rules))
    return found


def _report(history: History, what: str, *said: Answer | list[str]) -> str:
    names = ("one store", "other store", "by the rules", "by the rules (other store)")
    told = [f"  {name:12} {_short(each)}" for name, each in zip(names, said, strict=False)]
    steps = [f"  step {number}: {_told(step)}" for number, step in enumerate(history.steps)]
    return "\n".join([f"seed {history.seed}: {what}", *told, *steps])


def _told(step: Step) -> str:
    return "; ".join([*map(_guard, step.guards), *map(_change, step.changes)])


def _guard(guard: Guard) -> str:
    return f"match {guard.object_id} {guard.expect} at {guard.at}"


def _change(change: Change) -> str:
    verb = "delete" if change.document is None else "put"
    return f"{verb} {change.object_id} from {change.start} until {change.end}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}… ({len(text)} characters)"
