"""Ask layers for their text in a prompt, within a time limit and a budget. Waits for the layers.

A contributor that fails, is late or exceeds its budget is left out, and this is logged: a layer
never fails a turn.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol, runtime_checkable

from ctxmgr.core.context.assembly import Contribution, Section


class Contributor(Protocol):
    """Adds text to the prompts of ``render(contribute=True)``.

    A contributor that fails, is late or exceeds its budget is left out, and this is logged; it
    never fails a turn.
    """

    name: str
    """Identifies the contributor in turn records and logs."""
    slot: Section
    """Where the text goes: ``Section.STABLE`` (after the system prompt, for text that hardly ever
    changes), ``EPOCH`` (before the pool, changes only when an epoch begins) or ``VOLATILE`` (last).
    """
    budget_tokens: int
    """The maximum length of its text."""

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        """Return the text for this turn, within the budget; an empty text adds nothing."""
        ...


@runtime_checkable
class MessageContributor(Protocol):
    """A contributor whose text depends on the new user message."""

    async def contribute_to(
        self, session_id: str, *, message: str, turn: int, budget_tokens: int
    ) -> str:
        """Return the text for a prompt with this message; it is called instead of ``contribute``.

        The message is empty if the model continues after tool calls.
        """
        ...


CONTRIBUTION_SECONDS: Final = 2.0
"""For one layer to answer: a prompt should not wait longer than its model's first token."""

_log = logging.getLogger(__name__)


async def contributions(
    contributors: Iterable[Contributor],
    *,
    session_id: str,
    turn: int,
    count: Callable[[str], int],
    message: str = "",
) -> tuple[Contribution, ...]:
    """Ask all contributors at once; return their texts in the order of the contributors.

    ``count`` counts the tokens of a text; ``message`` is the new user message.
    """
    requests = [_ask(each, session_id, turn, count, message=message) for each in contributors]
    answers = await asyncio.gather(*requests)
    return tuple(contribution for contribution in answers if contribution is not None)


async def _ask(
    contributor: Contributor,
    session_id: str,
    turn: int,
    count: Callable[[str], int],
    *,
    message: str,
) -> Contribution | None:
    budget = contributor.budget_tokens
    try:
        async with asyncio.timeout(CONTRIBUTION_SECONDS):
            if isinstance(contributor, MessageContributor):
                text = await contributor.contribute_to(
                    session_id, message=message, turn=turn, budget_tokens=budget
                )
            else:
                text = await contributor.contribute(session_id, turn=turn, budget_tokens=budget)
    except Exception:  # noqa: BLE001 (whatever a layer does wrong)
        _log.exception("%s contributes nothing to turn %d", contributor.name, turn)
        return None
    if not text:
        return None
    tokens = count(text)
    if tokens > budget:
        _log.warning(
            "%s is left out of turn %d: %d tokens exceed its budget of %d",
            contributor.name,
            turn,
            tokens,
            budget,
        )
        return None
    return Contribution(slot=contributor.slot, name=contributor.name, text=text)
