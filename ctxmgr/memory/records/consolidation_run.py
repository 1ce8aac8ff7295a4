"""When a principal's memories were last consolidated, and what that did. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ctxmgr.core.store.contract import IdForm, Instant, Kind
from ctxmgr.errors import Corrupt
from ctxmgr.memory.records.principal import Principal

RUN: Final = "memory_consolidation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationCounts:
    """What the six steps changed, or would change."""

    deduped: int = 0
    """Facts that were superseded by one that says the same."""
    summarised: int = 0
    compressed: int = 0
    """Episodes that are shown shorter from now on, the summarised ones included."""
    promoted: int = 0
    demoted: int = 0
    contradictions_found: int = 0
    forgotten: int = 0
    links_found: int = 0
    skipped: int = 0
    """Changes that were left out because somebody else changed the same memory meanwhile."""


def run_id(principal: Principal) -> str:
    """Return the id of the document with the last run of a principal."""
    who = f"{principal.user_id}\n{principal.project_id}"
    return f"{RUN}:{hashlib.sha256(who.encode()).hexdigest()[:32]}"


def stored_run(principal: Principal, *, at: Instant, counts: ConsolidationCounts) -> dict[str, Any]:
    return {
        "xt/id": run_id(principal),
        "type": RUN,
        "user_id": principal.user_id,
        "project_id": principal.project_id,
        "at": at,
        **asdict(counts),
    }


def read_run_time(stored: Mapping[str, Any]) -> Instant:
    """Return when the run was; ``Corrupt`` if the document is damaged."""
    at = stored.get("at")
    if type(at) is not int:
        raise Corrupt(f"the record of a consolidation has no time: {at!r:.80}")
    return at


RUN_KIND: Final = Kind(RUN, ids=IdForm.NAMED)
