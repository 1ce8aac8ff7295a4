"""What the recording of a client adds to turns that its hooks captured. Reads the store.

Hooks know neither tokens nor, in some clients, the model. A turn that is stored never changes,
since records of prompts prove it, so an import keeps both in ``recorded:{session}``:

    captured    the number of a turn, as text → usage, model, how many answers it had
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ctxmgr.core.objects.chat import AssistantMeta, Turn
from ctxmgr.core.store.contract import Store

RECORDED: Final = "recorded"
"""``recorded:{session}`` names the recording of a session: a plain document."""

CAPTURED: Final = "captured"

Captured = Mapping[str, Mapping[str, Any]]


async def recorded_usage(store: Store, session_id: str) -> Captured:
    """Return what an import has added to captured turns; empty for most sessions.

    The document is a plain one, which anybody may have stored: what no import writes is left out.
    """
    version = await store.get(f"{RECORDED}:{session_id}")
    found = None if version is None else version.document.get(CAPTURED)
    if not isinstance(found, dict):
        return {}
    return {number: added for number, added in found.items() if _is_addition(added)}


def _is_addition(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("usage", {}), dict)
        and isinstance(value.get("model", ""), str)
    )


def completed(turns: Iterable[Turn], captured: Captured, *, first: int = 1) -> list[Turn]:
    """Return turns with what an import has added, to be shown; ``first`` is the first's number."""
    return [
        _completed(turn, captured.get(str(number), {})) for number, turn in enumerate(turns, first)
    ]


def _completed(turn: Turn, added: Mapping[str, Any]) -> Turn:
    meta = turn.assistant_meta
    usage = meta.usage or added.get("usage")
    model = meta.model or added.get("model")
    if (usage, model) == (meta.usage, meta.model):
        return turn
    made: AssistantMeta = replace(meta, usage=usage, model=model)
    return replace(turn, assistant_meta=made)
