"""What was not remembered, with the reason, for a person to look at. Pure.

memory_refused:{session}:{turn}   what one exchange offered and the rules turned down
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import Corrupt
from ctxmgr.memory.extraction.findings import RefusedItem
from ctxmgr.memory.records.learning_kinds import REFUSED, named_after
from ctxmgr.memory.records.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBatch:
    """What one exchange offered in vain."""

    session_id: str
    turn: int
    owner: Principal
    refused_at: Instant
    items: tuple[RefusedItem, ...]


def stored_refusals(
    session_id: str, turn: int, items: Sequence[RefusedItem], *, owner: Principal, at: Instant
) -> dict[str, Any]:
    return {
        "xt/id": f"{REFUSED}:{named_after(session_id)}:{turn}",
        "type": REFUSED,
        "session_id": session_id,
        "turn": turn,
        "user_id": owner.user_id,
        "project_id": owner.project_id,
        "refused_at": at,
        "items": [
            {"text": each.text, "reason": each.reason, "by": each.extractor, "turn": each.turn}
            for each in items
        ],
    }


def read_refusals(stored: Mapping[str, Any]) -> RefusedBatch:
    """Read a document; ``Corrupt`` if a field is missing or damaged."""
    try:
        return RefusedBatch(
            session_id=str(stored["session_id"]),
            turn=int(stored["turn"]),
            owner=Principal(user_id=str(stored["user_id"]), project_id=str(stored["project_id"])),
            refused_at=int(stored["refused_at"]),
            items=tuple(
                RefusedItem(
                    text=str(each["text"]),
                    reason=str(each["reason"]),
                    extractor=str(each["by"]),
                    turn=int(each["turn"]),
                )
                for each in stored["items"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        where = stored.get("xt/id")
        raise Corrupt(f"the stored refusals {where!r:.80} are not readable: {error}") from error
