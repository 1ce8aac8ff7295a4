"""Limits of an agent's experience, from its lifecycle contract. Reads its file.

Without a contract the tribal minimums apply. A contract may allow more and never less: it is data
from outside, checked when it is loaded.
"""

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ctxmgr.errors import Incorrect

CONTEXT_TOKENS_MIN: Final = 8_192
WARM_TOKENS_MIN: Final = 100_000
COLD_BYTES_MIN: Final = 100 * 1_000_000
AUDIT_DAYS_MIN: Final = 30
TICK_TOKENS_MIN: Final = 1_024

CONTRACT_BYTES_MAX: Final = 1_000_000
"""Bytes of a contract's file."""

_LIMIT_MAX: Final = 2**53


class MemoryLimits(BaseModel):
    """``resources.memory``"""

    model_config = ConfigDict(frozen=True, strict=True)

    context_window_tokens: Annotated[int, Field(ge=CONTEXT_TOKENS_MIN, le=_LIMIT_MAX)] = (
        CONTEXT_TOKENS_MIN
    )
    warm_quota_tokens: Annotated[int, Field(ge=WARM_TOKENS_MIN, le=_LIMIT_MAX)] = WARM_TOKENS_MIN
    """Tokens of windows that are retained."""
    cold_storage_bytes: Annotated[int, Field(ge=COLD_BYTES_MIN, le=_LIMIT_MAX)] = COLD_BYTES_MIN
    """Logical bytes of compressed records."""
    audit_retention_days: Annotated[int, Field(ge=AUDIT_DAYS_MIN, le=36_500)] = AUDIT_DAYS_MIN


class ComputeLimits(BaseModel):
    """``resources.compute``"""

    model_config = ConfigDict(frozen=True, strict=True)

    tokens_per_tick: Annotated[int, Field(ge=TICK_TOKENS_MIN, le=_LIMIT_MAX)] = TICK_TOKENS_MIN


class ContractResources(BaseModel):
    """``resources``"""

    model_config = ConfigDict(frozen=True, strict=True)

    memory: MemoryLimits = MemoryLimits()
    compute: ComputeLimits = ComputeLimits()


class LifecycleContract(BaseModel):
    """What an agent was granted. Other members of a contract are none of our business."""

    model_config = ConfigDict(frozen=True, strict=True)

    resources: ContractResources = ContractResources()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a contract from a JSON file; ``Incorrect`` names each limit that is too low."""
        if not path.is_file():
            raise Incorrect(f"{path}: there is no lifecycle contract at this path")
        if path.stat().st_size > CONTRACT_BYTES_MAX:
            raise Incorrect(
                f"{path}: a lifecycle contract has at most {CONTRACT_BYTES_MAX:,} bytes"
            )
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'contract'}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_input=False)
            )
            raise Incorrect(f"{path}: {faults}") from error


TRIBAL_MINIMUMS: Final = LifecycleContract()
