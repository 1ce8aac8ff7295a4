"""Maps unsuccessful HTTP statuses of a model's server to errors. Pure.

    401, 402, 403, and 429 for an empty account    Denied: the key or its account
    408, 409, 425, 429, 5xx (529: overloaded)      Busy: temporary, so the request is retried
    3xx and the rest of 4xx                        Incorrect: base URL, model or request

The error includes the server's own message, shortened, and without the API key if it repeats it.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ctxmgr.errors import CtxmgrError, Denied, Incorrect, ModelUnavailable

MESSAGE_LENGTH_MAX: Final = 500
"""Characters of a server's message, which is shown on one line."""

_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_DENIED: Final = frozenset({401, 402, 403})
_TEMPORARY: Final = frozenset({408, 409, 425, 429})
_EMPTY_ACCOUNT: Final = frozenset({"insufficient_quota", "billing_error"})
_SERVER_ERROR: Final = 500
_NOT_FOUND: Final = 404
_REDIRECTS: Final = range(300, 400)


class Busy(ModelUnavailable):
    """No answer began; the same request may succeed later."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """How long the server asks to wait; None if it does not say."""


def status_error(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    url: str,
    key: str | None,
    now: datetime,
) -> CtxmgrError:
    """Return the error for a reply with this status."""
    # The key is removed before anything is shortened: half a key would not be recognised.
    safe_body = body.replace(key.encode(), "…".encode()) if key else body
    value = _parse_json(safe_body)
    reason = (
        _one_line(safe_body.decode("utf-8", "replace")) if value is None else error_message(value)
    )
    message = f"{url} answered {status}" + (f": {reason}" if reason else "")
    if status in _DENIED or _EMPTY_ACCOUNT & _error_codes(body):
        return Denied(f"{message}; check the API key and its account")
    if status in _TEMPORARY or status >= _SERVER_ERROR:
        return Busy(message, retry_after_s=parse_retry_after(headers.get("retry-after"), now=now))
    if status in _REDIRECTS:
        location = headers.get("location", "nowhere")
        return Incorrect(f"{message}: it redirects to {location!r:.200}; check the base URL")
    if status == _NOT_FOUND:
        return Incorrect(f"{message}; check the model's name and the base URL")
    return Incorrect(message)


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Return the seconds of a ``Retry-After`` header, which has seconds or a date, or None."""
    if value is None:
        return None
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        then = datetime.strptime(value, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None
    return max(0.0, (then - now).total_seconds())


def error_message(error: object) -> str:
    """Return the message of a server's error, in any of the usual shapes, on one line."""
    match error:
        case {"error": inner}:
            return error_message(inner)
        case {"message": str(message)}:
            return _one_line(message)
        case {"detail": detail}:
            return _one_line(detail if isinstance(detail, str) else json.dumps(detail))
        case str():
            return _one_line(error)
        case _:
            return _one_line(json.dumps(error, default=str))


def _error_codes(body: bytes) -> set[str]:
    match _parse_json(body):
        case {"error": {**fields}}:
            return {
                value
                for name, value in fields.items()
                if name in {"type", "code"} and isinstance(value, str)
            }
        case _:
            return set()


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_LENGTH_MAX else line[: MESSAGE_LENGTH_MAX - 1] + "…"
