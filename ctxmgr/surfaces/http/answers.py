"""Responses of the HTTP API, and the table of error codes and statuses. Logs bugs.

Results and errors have the bytes that ``--json`` prints. The body of an error names its code; from
a status alone, ``code_of`` returns the most general code that has it.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ctxmgr.core.store.urls import redact_urls
from ctxmgr.errors import CtxmgrError
from ctxmgr.surfaces.encoding import json_bytes
from ctxmgr.surfaces.error_answers import ANSWERS, remedy

STATUSES: Final = MappingProxyType(
    {
        "error": 500,
        "incorrect": 400,
        "not_content": 422,
        "window_exceeded": 422,
        "quota_exceeded": 422,
        "invalid_note": 422,
        "bundle_damaged": 422,
        "extra_missing": 501,
        "newer_format": 501,
        "not_found": 404,
        "purged": 410,
        "conflict": 409,
        "denied": 403,
        "unavailable": 503,
        "model_unavailable": 502,
        "answer_lost": 502,
        "outcome_unknown": 504,
        "corrupt": 500,
        "hash_mismatch": 500,
        "chain_broken": 500,
    }
)
"""One entry for every ``code`` in ``ctxmgr.errors``, the general before the specific."""

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
"""Statuses of requests that reach no operation, and their codes."""

_CODES: Final[Mapping[int, str]] = MappingProxyType(
    {**{STATUSES[code]: code for code in reversed(list(STATUSES))}, **PROTOCOL}
)


def status_of(code: str) -> int:
    """Return the status of an error code."""
    return STATUSES[code]


def code_of(status: int) -> str:
    """Return the code of a status; ``error`` for one that is not in the table."""
    return _CODES.get(status, "error")


def codes_by_status() -> dict[int, list[str]]:
    """Return every status with the codes its body may have."""
    codes: dict[int, list[str]] = {status: [code] for status, code in PROTOCOL.items()}
    for code, status in STATUSES.items():
        codes.setdefault(status, []).append(code)
    return dict(sorted(codes.items()))


JSON: Final = "application/json"

NO_STORE: Final = MappingProxyType({"cache-control": "no-store"})
"""Keeps proxies and browsers from storing what an agent has seen."""

_NEXT: Final = MappingProxyType(
    {
        "incorrect": "/openapi.json describes every request",
        "denied": "use a token that allows it",
        "error": "see the server's log",
    }
)
"""Remedies that differ from the command line's."""

_log = logging.getLogger(__name__)


class HttpRefusal(Exception):  # noqa: N818 (named for what happened)
    """A request refused by the HTTP layer, before any operation."""

    def __init__(
        self, status: int, message: str, *, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Endpoint:
    """An ASGI endpoint that turns every exception into an error response."""

    methods: tuple[str, ...] = ("GET",)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            if request.method not in self.methods:
                allowed = ", ".join(self.methods)
                message = f"{request.method} is not allowed on this path: use {allowed}"
                raise HttpRefusal(405, message, headers={"allow": allowed})  # noqa: TRY301
            response = await self.answer(request)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            response = error_response(error)
        await response(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        raise NotImplementedError


def result_response(result: Any) -> Response:
    return Response(json_bytes(result) + b"\n", media_type=JSON, headers=dict(NO_STORE))


def error_response(error: Exception) -> Response:
    """Return the response of an error. A bug is logged, and only its class is returned."""
    if isinstance(error, HttpRefusal):
        code = code_of(error.status)
        todo = _NEXT.get(code, ANSWERS[code].next)
        return _error_response(error.status, code, str(error), todo, error.headers)
    if isinstance(error, CtxmgrError):
        todo = remedy(error, _NEXT)
        return _error_response(status_of(error.code), error.code, redact_urls(str(error)), todo, {})
    _log.error("a request failed", exc_info=error)
    todo = ANSWERS["error"].next
    return _error_response(status_of("error"), "error", type(error).__name__, todo, {})


def _error_response(
    status: int, code: str, message: str, todo: str, headers: Mapping[str, str]
) -> Response:
    body = {"code": code, "fault": ANSWERS[code].fault, "message": message, "next": todo}
    content = json_bytes({"error": body}) + b"\n"
    return Response(content, status, media_type=JSON, headers={**NO_STORE, **headers})
