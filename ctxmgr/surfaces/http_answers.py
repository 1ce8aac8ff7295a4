"""Answers of the HTTP API: a result, or what is wrong, as JSON with its status.

A result is the bytes that ``--json`` prints; an error is what ``--json`` prints of it.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ctxmgr.errors import CtxmgrError
from ctxmgr.surfaces.exits import ANSWERS
from ctxmgr.surfaces.http_statuses import code_of, status_of
from ctxmgr.surfaces.tables import json_bytes

JSON: Final = "application/json"

UNSTORED: Final = MappingProxyType({"cache-control": "no-store"})
"""Nothing that an agent saw is kept by whatever stands between."""

_NEXT: Final = MappingProxyType(
    {
        "incorrect": "correct it; /openapi.json describes every request",
        "denied": "ask with a token that allows it",
    }
)
"""Where what to do next is another thing than on the command line."""

_log = logging.getLogger(__name__)


class Refused(Exception):  # noqa: N818 (named for what happened)
    """The protocol's own refusals, which no operation raises."""

    def __init__(
        self, status: int, message: str, *, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Answering:
    """Answers a request, or tells what is wrong with it."""

    methods: tuple[str, ...] = ("GET",)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer_allowed(request)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 (the edge: whatever it is becomes a status)
            response = error_answer(error)
        await response(scope, receive, send)

    async def _answer_allowed(self, request: Request) -> Response:
        if request.method not in self.methods:
            words = ", ".join(self.methods)
            message = f"{request.method} is not for this path: use {words}"
            raise Refused(405, message, headers={"allow": words})
        return await self.answer(request)

    async def answer(self, request: Request) -> Response:
        raise NotImplementedError


def result_answer(result: Any) -> Response:
    return Response(json_bytes(result) + b"\n", media_type=JSON, headers=dict(UNSTORED))


def error_answer(error: Exception) -> Response:
    """Tell an error. One that is not ours is logged, and told without what it says."""
    if isinstance(error, Refused):
        return _told(error.status, code_of(error.status), str(error), error.headers)
    if isinstance(error, CtxmgrError):
        return _told(status_of(error.code), error.code, str(error), {})
    _log.error("a request failed", exc_info=error)
    return _told(status_of("error"), "error", type(error).__name__, {})


def _told(status: int, code: str, message: str, headers: Mapping[str, str]) -> Response:
    answer = ANSWERS[code]
    told = {
        "code": code,
        "fault": answer.fault,
        "message": message,
        "next": _NEXT.get(code, answer.next),
    }
    body = json_bytes({"error": told}) + b"\n"
    return Response(body, status, media_type=JSON, headers={**UNSTORED, **headers})
