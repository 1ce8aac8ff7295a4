"""What a model's server means by a status that is no success. Pure.

    401, 402, 403, and 429 for an empty account    Denied: the key, or what it may spend
    408, 409, 425, 429, 5xx (529: overloaded)      Busy: it may pass, and is tried again
    3xx and the rest of 4xx                        Incorrect: address, model or request

The server's own words are kept, cut to a length that can be read; a key that it repeats is not.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ctxmgr.errors import CtxmgrError, Denied, Incorrect, ModelUnavailable

WORDS_MAX: Final = 500
"""Characters of a server's own words: they are for a person's line, not for a page."""

_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_REFUSED: Final = frozenset({401, 402, 403})
_PASSING: Final = frozenset({408, 409, 425, 429})
_NO_MONEY: Final = frozenset({"insufficient_quota", "billing_error"})
_FIRST_FAULT_OF_THE_SERVER: Final = 500
_NOT_FOUND: Final = 404
_REDIRECTS: Final = range(300, 400)


class Busy(ModelUnavailable):
    """No answer began; the same request may be answered later."""

    def __init__(self, message: str, *, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s
        """How long the server asks to wait; None: it does not say."""


def fault(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    url: str,
    key: str | None,
    now: datetime,
) -> CtxmgrError:
    """Return the error that a reply stands for."""
    said = _words(_without(key, body))
    what = f"{url} answered {status}" + (f": {said}" if said else "")
    if status in _REFUSED or _NO_MONEY & _codes(body):
        return Denied(f"{what}; check the API key and its account")
    if status in _PASSING or status >= _FIRST_FAULT_OF_THE_SERVER:
        return Busy(what, after_s=retry_after(headers.get("retry-after"), now=now))
    if status in _REDIRECTS:
        return Incorrect(f"{what}: it leads to {headers.get('location', 'nowhere')!r:.200}")
    if status == _NOT_FOUND:
        return Incorrect(f"{what}; check the model's name and the base URL")
    return Incorrect(what)


def retry_after(value: str | None, *, now: datetime) -> float | None:
    """Read a ``Retry-After``: seconds, or a date. What is neither says nothing."""
    if value is None:
        return None
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        then = datetime.strptime(value, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None
    return max(0.0, (then - now).total_seconds())


def words(error: object) -> str:
    """Read what a server says of an error, in any of the shapes that are about."""
    match error:
        case {"error": inner}:
            return words(inner)
        case {"message": str(message)}:
            return _cut(message)
        case {"detail": detail}:
            return _cut(detail if isinstance(detail, str) else json.dumps(detail))
        case str():
            return _cut(error)
        case _:
            return _cut(json.dumps(error, default=str))


def _words(body: bytes) -> str:
    value = _json(body)
    return _cut(body.decode("utf-8", "replace")) if value is None else words(value)


def _codes(body: bytes) -> set[str]:
    match _json(body):
        case {"error": {**fields}}:
            return {
                value
                for name, value in fields.items()
                if name in {"type", "code"} and isinstance(value, str)
            }
        case _:
            return set()


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WORDS_MAX else line[: WORDS_MAX - 1] + "…"


def _without(key: str | None, body: bytes) -> bytes:
    """Leave the key out before anything is cut: half a key would not be recognised."""
    return body.replace(key.encode(), "…".encode()) if key else body
