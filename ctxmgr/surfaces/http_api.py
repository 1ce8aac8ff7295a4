"""The HTTP API, derived from the catalogue. An ASGI application.

    POST /NAME    a JSON body of the operation's parameters
    GET /NAME     the same as a query, for what only reads
    GET /events   what happens in the store, as it happens (server-sent events)
    GET /         the inspector's files

The result is the JSON that ``ctxmgr NAME --json`` prints.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ctxmgr.app import App
from ctxmgr.errors import Denied, Incorrect
from ctxmgr.surfaces.arguments import from_json, from_query
from ctxmgr.surfaces.catalogue import Operation
from ctxmgr.surfaces.event_hub import Hub
from ctxmgr.surfaces.http_answers import JSON, Answering, Refused, error_answer, result_answer
from ctxmgr.surfaces.http_events import Events
from ctxmgr.surfaces.http_guard import GRANT, Guard, Rules
from ctxmgr.surfaces.openapi import EVENTS_PATH, OPENAPI_PATH, description, path_of
from ctxmgr.surfaces.scopes import confined

if TYPE_CHECKING:
    from ctxmgr.surfaces.access_tokens import Grant, Keys

LEFT_OUT: Final = MappingProxyType(
    {
        "export": "writes a file of the server's machine",
        "import": "reads a file of the server's machine",
        "import-recorded": "reads a file of the server's machine",
        "backup": "writes a file of the server's machine",
        "verify": "reads the whole file; whoever keeps the store runs it there",
        "vacuum": "rewrites the whole file; whoever keeps the store runs it there",
        "run": "starts processes on the server's machine",
        "hook": "reads what another program gives it on standard input",
        "demo": "starts processes on the server's machine",
        "bench": "starts processes on the server's machine",
        "doctor": "tells of the server's machine and its settings",
        "xtdb up": "starts processes on the server's machine",
        "xtdb down": "ends processes on the server's machine",
        "xtdb status": "tells of processes on the server's machine",
        "completion": "is for a shell of one's own",
        "mcp": "is another server",
        "serve": "is the server",
        "token": "makes what the server is guarded by",
    }
)
"""Operations that are not offered, each with the reason."""

BODY_BYTES_MAX: Final = 1024 * 1024
"""Ids, names and cursors: content is never sent here."""

BODY_SECONDS_MAX: Final = 30.0
"""Within which a body has arrived."""

INSPECTOR: Final = Path(__file__).parent / "inspector"

_FIRST_FILE: Final = "."
"""What the server's root is called among the files."""

_PAGE_HEADERS: Final = {
    "cache-control": "no-cache",  # asked for each time: scripts of two versions would not fit
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def offered(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """The operations that there is a path for."""
    return tuple(each for each in operations if each.name not in LEFT_OUT)


def build(
    app: App,
    hub: Hub,
    *,
    operations: Iterable[Operation],
    loopback: bool,
    keys: "Keys | None",
    token_required: bool,
    read_only: bool,
    rate_per_second: int,
) -> Starlette:
    """Make the application for one store."""
    known = offered(operations)
    usable = [each for each in known if not (read_only and each.writes)]
    paths = {path_of(each): _Endpoint(app, each) for each in usable}
    refused = {path_of(each): _ReadOnly() for each in known if each not in usable}
    rules = Rules(
        loopback=loopback,
        keys=keys,
        token_required=token_required,
        guarded={*paths, *refused, EVENTS_PATH},
        rate_per_second=rate_per_second,
    )
    return Starlette(
        routes=[
            *(Route(path, endpoint) for path, endpoint in {**paths, **refused}.items()),
            Route(EVENTS_PATH, Events(hub, keys)),
            Route(OPENAPI_PATH, _Described(description(usable))),
            Mount("/", _Files(directory=INSPECTOR, html=True)),
        ],
        middleware=[Middleware(Guard, rules=rules)],
        exception_handlers={HTTPException: _protocol_error},
    )


class _Endpoint(Answering):
    """One operation."""

    def __init__(self, app: App, operation: Operation) -> None:
        self._app = app
        self._operation = operation
        self.methods = ("POST",) if operation.writes else ("POST", "GET")

    async def answer(self, request: Request) -> Response:
        given = await self._given(request)
        grant: Grant = request.scope[GRANT]
        if self._operation.writes and not grant.writes:
            raise Denied("this token only reads")
        if grant.session_id is not None:
            store = await self._app.store()
            name = self._operation.name
            given = await confined(store, name, given, session_id=grant.session_id)
        await self._check_reached(given.get("sequence"))
        return result_answer(await self._operation.run(self._app, **given))

    async def _check_reached(self, sequence: int | None) -> None:
        """A store that is behind is unavailable; a number that nobody wrote is a wrong request."""
        if sequence is None:
            return
        last = (await (await self._app.store()).status()).sequence
        if last is None or sequence > last:
            raise Incorrect(f"sequence {sequence} is not written yet: the last one is {last}")

    async def _given(self, request: Request) -> dict[str, Any]:
        if request.method == "GET":
            return from_query(self._operation, request.query_params.multi_items())
        if request.query_params:
            raise Incorrect("a POST takes its parameters in the body, not in the query")
        return from_json(self._operation, _json(await _body(request)))


class _ReadOnly(Answering):
    methods = ("POST",)

    async def answer(self, request: Request) -> Response:  # noqa: ARG002 (whatever it is)
        raise Denied("this server only reads: it was started with --read-only")


class _Described(Answering):
    """The description of the API."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._body = json.dumps(told, indent=2, ensure_ascii=False).encode()

    async def answer(self, request: Request) -> Response:  # noqa: ARG002 (it is always the same)
        return Response(self._body, media_type=JSON)


class _Files(StaticFiles):
    """The inspector's files. A page of theirs may ask this server and nobody else."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if path == _FIRST_FILE:
            asyncio.get_running_loop().run_in_executor(None, _make_ready)
        response.headers.update(_PAGE_HEADERS)
        return response


@cache
def _make_ready() -> None:
    """Load what the page's first question needs, while the browser loads its scripts."""
    from ctxmgr.core.vocabularies import CL100K, named_vocabulary

    import_module("ctxmgr.surfaces.timelines")
    named_vocabulary(CL100K)


async def _protocol_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refused = Refused(error.status_code, error.detail, headers=error.headers or {})
    return error_answer(refused)


async def _body(request: Request) -> bytes:
    """Read a body that is not too large and not too slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        # A page of another site can send other types without asking first.
        raise Refused(415, f"the body is {JSON}, not {kind or 'without a type'}")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise Refused(413, f"the body has more than {BODY_BYTES_MAX:,} bytes")
    except TimeoutError as error:
        raise Refused(408, f"no whole body came within {BODY_SECONDS_MAX:g} s") from error
    return bytes(body)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Incorrect(f"the body is no JSON: {error}") from error
