"""Asking layers for their part of a prompt. Waits for them, and never longer than said.

One that fails, is late or says more than it asked for is left out and reported: a layer never fails
a turn.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from ctxmgr.core.assembly import Contribution, Contributor

CONTRIBUTION_SECONDS: Final = 2.0
"""For one layer to answer: a prompt should not wait longer than its model's first token."""

CHARS_PER_TOKEN: Final = 4
"""Of English text and code, for a budget that only has to be about right."""

_log = logging.getLogger(__name__)


async def contributions(
    contributors: Iterable[Contributor], *, session_id: str, turn: int
) -> tuple[Contribution, ...]:
    """Ask all at once; return what they give, in the order they were given in."""
    asked = [_ask(each, session_id, turn) for each in contributors]
    return tuple(each for each in await asyncio.gather(*asked) if each is not None)


async def _ask(contributor: Contributor, session_id: str, turn: int) -> Contribution | None:
    budget = contributor.budget_tokens
    try:
        async with asyncio.timeout(CONTRIBUTION_SECONDS):
            text = await contributor.contribute(session_id, turn=turn, budget_tokens=budget)
    except Exception:  # noqa: BLE001 (whatever a layer does wrong)
        _log.exception("%s contributes nothing to turn %d", contributor.name, turn)
        return None
    if len(text) > budget * CHARS_PER_TOKEN:
        _log.warning("%s: %d characters are beyond its budget", contributor.name, len(text))
        return None
    if not text:
        return None
    return Contribution(slot=contributor.slot, name=contributor.name, text=text)
