"""Errors as HTTP statuses, and back: the one table of the HTTP API and of its clients. Pure.

A body that tells an error names its code. What a client makes of a status alone is ``code_of``:
among codes that share a status the most general one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

STATUSES: Final = MappingProxyType(
    {
        "error": 500,
        "incorrect": 400,
        "not_content": 422,
        "window_exceeded": 422,
        "bundle_damaged": 422,
        "extra_missing": 501,
        "newer_format": 501,
        "not_found": 404,
        "conflict": 409,
        "denied": 403,
        "unavailable": 503,
        "model_unavailable": 502,
        "answer_lost": 502,
        "outcome_unknown": 504,
        "corrupt": 500,
        "hash_mismatch": 500,
    }
)
"""One entry for every ``code`` in ``ctxmgr.errors``, the general before the special."""

PROTOCOL: Final = MappingProxyType(
    {
        401: "denied",
        405: "incorrect",
        408: "incorrect",
        413: "incorrect",
        415: "incorrect",
        421: "incorrect",
        429: "unavailable",
    }
)
"""Statuses that are answered before an operation is asked, each by the code it means."""

_CODES: Final[Mapping[int, str]] = MappingProxyType(
    {**{STATUSES[code]: code for code in reversed(list(STATUSES))}, **PROTOCOL}
)


def status_of(code: str) -> int:
    """Return the status by which an error is answered."""
    return STATUSES[code]


def code_of(status: int) -> str:
    """Return the code that a status means by itself; what is not in the table is our fault."""
    return _CODES.get(status, "error")


def codes_by_status() -> dict[int, list[str]]:
    """Return every status with the codes that its body may name."""
    found: dict[int, list[str]] = {status: [code] for status, code in PROTOCOL.items()}
    for code, status in STATUSES.items():
        found.setdefault(status, []).append(code)
    return dict(sorted(found.items()))
