"""One decision about one topic. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from ctxmgr.core.store.contract import Instant


class GateResult(StrEnum):
    """What was decided."""

    YES = "yes"
    NO = "no"
    BYPASSED = "bypassed"
    """Activated without the gate."""
    DROPPED = "dropped"
    """Not activated, without the gate."""
    CORRECTED = "corrected"
    """Activated by the agent's own answer."""

    @property
    def activates(self) -> bool:
        return self not in {GateResult.NO, GateResult.DROPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """One decision about one topic (002-R125)."""

    timestamp: Instant
    message_hash: str
    topic_name: str
    tier1_matched: bool
    tier2_score: float
    gate_result: GateResult
    was_useful: bool | None = None
    """None until it is judged."""
    direction: str
    decider: str
    """``model``, ``cache``, ``rule`` or ``table``."""
    triggers: tuple[str, ...] = ()
    """The triggers that matched, each in one line."""
    session_id: str | None = None
    decision_id: str = ""
    """Given by the log."""
