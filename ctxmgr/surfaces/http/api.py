"""The HTTP API, derived from the catalogue. An ASGI application.

    POST /NAME    parameters in a JSON body
    GET /NAME     parameters in the query, for operations that only read
    GET /events   changes to the store as server-sent events
    /v1/audit/…   the audit log, for a reviewer's token and no other
    POST /hooks   webhooks that fire topics
    GET /         the inspector's files

The result is the JSON that ``ctxmgr NAME --json`` prints.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
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
from ctxmgr.surfaces.http.answers import (
    JSON,
    Endpoint,
    HttpRefusal,
    error_response,
    result_response,
)
from ctxmgr.surfaces.http.bodies import json_body
from ctxmgr.surfaces.http.event_hub import EventHub
from ctxmgr.surfaces.http.events import EventsEndpoint
from ctxmgr.surfaces.http.guard import (
    GuardRules,
    RequestGuard,
    require_grant,
    require_reviewer,
)
from ctxmgr.surfaces.http.openapi import EVENTS_PATH, OPENAPI_PATH, openapi_document, path_of
from ctxmgr.surfaces.http.webhooks import HOOK_ROUTE, WebhookEndpoint
from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.scopes import confine

if TYPE_CHECKING:
    from ctxmgr.surfaces.access_tokens import Keys


LEFT_OUT: Final = MappingProxyType(
    {
        **dict.fromkeys(
            ("audit status", "audit verify", "audit query"),
            "is for reviewers, who have paths of their own",
        ),
        "audit init": "is for administrators, on the machine of the log",
        "audit export": "writes files on the machine of the log",
        "audit checkpoint": "signs with a key of the machine of the log",
        "experience sql": "runs any query, which is up to a person at the log's machine",
        "experience status": "is for a person at the log's machine",
        "experience export": "writes files on the server's machine",
        "experience sync-documents": "reads files of the server's machine",
        "experience build-pack": "writes a file on the server's machine",
        "experience check-pack": "reads a file on the server's machine",
        "experience retain": "is for a person at the log's machine",
        "experience release": "is for a person at the log's machine",
        "experience submit": "is for a person at the log's machine",
        "experience resolve": "is for a person at the log's machine",
        "experience package": "writes files on the server's machine",
        "experience verify-package": "reads files of the server's machine",
        "experience compress": "is for a person at the log's machine",
        **dict.fromkeys(
            ("knowledge init", "knowledge commit", "knowledge revert", "knowledge tag"),
            "is for a person at the notes' machine",
        ),
        **dict.fromkeys(
            ("knowledge branches", "knowledge push", "knowledge indexed"),
            "is for a person at the notes' machine",
        ),
        **dict.fromkeys(
            (
                *("lifecycle extract", "lifecycle replay", "lifecycle condense", "lifecycle prune"),
                *("lifecycle archive", "lifecycle reconstruct", "lifecycle check"),
            ),
            "is for a person at the machine of the notes",
        ),
        "memory export": "writes a file on the server's machine",
        "memory import": "reads a file on the server's machine",
        "memory purge": "removes content for good, which no remote caller may",
        "export": "writes a file on the server's machine",
        "import": "reads a file on the server's machine",
        "import-recorded": "reads a file on the server's machine",
        "compact": "is for a session that no client has open; a harness calls its own session",
        "backup": "writes a file on the server's machine",
        "verify": "reads the whole file; for the store's administrator",
        "vacuum": "rewrites the whole file; for the store's administrator",
        "run": "starts processes on the server's machine",
        "hook": "reads standard input",
        "setup": "writes settings of other programs",
        "demo": "starts processes on the server's machine",
        "bench": "starts processes on the server's machine",
        "doctor": "describes the server's machine and its settings",
        "xtdb up": "starts processes on the server's machine",
        "xtdb down": "ends processes on the server's machine",
        "xtdb status": "describes processes on the server's machine",
        "delete": "is up to a person at the store's machine",
        "restore": "is up to a person at the store's machine",
        "rename": "is up to a person at the store's machine",
        "pause": "is up to a person at the store's machine",
        "purge": "removes content for good, which no remote caller may",
        "purges": "names sessions of the whole store",
        "size": "reads the whole store",
        "completion": "is for a shell",
        "mcp": "is another server",
        "trust": "confirms a file of the server's machine",
        "proxy": "is another server",
        "proxy status": "describes a process of the server's machine",
        "serve": "is this server",
        "wrap": "starts processes on the server's machine",
        "token": "creates this server's credentials",
    }
)
"""Operations that are not offered, and why."""

REVIEWED: Final = frozenset({"audit status", "audit verify", "audit query"})
"""Operations that only a reviewer's token can call. They change nothing in the store."""

BODY_BYTES_MAX: Final = 1024 * 1024
"""Requests hold ids, names and cursors, never content."""

INSPECTOR: Final = Path(__file__).parent / "inspector"

_FIRST_FILE: Final = "."
"""The path that StaticFiles gives to the root."""

_PAGE_HEADERS: Final = {
    "cache-control": "no-cache",  # scripts of two versions must not be mixed
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}


def offered_operations(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return the operations that have a path."""
    return tuple(operation for operation in operations if operation.name not in LEFT_OUT)


def reviewed_operations(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return the operations that have a path for reviewers."""
    return tuple(operation for operation in operations if operation.name in REVIEWED)


def build(
    app: App,
    hub: EventHub,
    *,
    operations: Iterable[Operation],
    loopback: bool,
    keys: "Callable[[], Keys | None]",
    token_required: bool,
    read_only: bool,
    rate_per_second: int,
) -> Starlette:
    """Build the application for one store."""
    operations = tuple(operations)
    reviewed = reviewed_operations(operations)
    available = offered_operations(operations)
    usable = [operation for operation in available if not (read_only and operation.writes)]
    paths = {path_of(operation): _OperationEndpoint(app, operation) for operation in usable}
    refused = {
        path_of(operation): _ReadOnlyEndpoint()
        for operation in available
        if operation not in usable
    }
    files = (path.relative_to(INSPECTOR).as_posix() for path in INSPECTOR.rglob("*"))
    rules = GuardRules(
        loopback=loopback,
        keys=keys,
        token_required=token_required,
        public=frozenset({"/", OPENAPI_PATH, *(f"/{name}" for name in files)}),
        reviewed=frozenset(map(path_of, reviewed)),
        rate_per_second=rate_per_second,
    )
    return Starlette(
        routes=[
            *(Route(path, endpoint) for path, endpoint in {**paths, **refused}.items()),
            *(Route(path_of(each), _ReviewedEndpoint(app, each)) for each in reviewed),
            Route(EVENTS_PATH, EventsEndpoint(hub, keys)),
            Route(OPENAPI_PATH, _OpenApiEndpoint([*usable, *reviewed])),
            Route(HOOK_ROUTE, _ReadOnlyEndpoint() if read_only else WebhookEndpoint(app)),
            Mount("/", _InspectorFiles(directory=INSPECTOR, html=True)),
        ],
        middleware=[Middleware(RequestGuard, rules=rules)],
        exception_handlers={HTTPException: _protocol_error},
    )


class _OperationEndpoint(Endpoint):
    """One operation."""

    def __init__(self, app: App, operation: Operation) -> None:
        self._app = app
        self._operation = operation
        self.methods = ("POST",) if operation.writes else ("POST", "GET")

    async def answer(self, request: Request) -> Response:
        arguments = await _given(request, self._operation)
        grant = require_grant(request.scope)
        if self._operation.writes and not grant.writes:
            raise Denied("this token is read-only")
        if grant.session_id is not None:
            store = await self._app.store()
            name = self._operation.name
            arguments = await confine(store, name, arguments, session_id=grant.session_id)
        sequence = arguments.get("sequence")
        if sequence is not None:
            # For a sequence beyond the last one the store would report itself unavailable.
            last = (await (await self._app.store()).status()).sequence
            if last is None or sequence > last:
                raise Incorrect(f"sequence {sequence} does not exist yet: the last one is {last}")
        return result_response(await self._operation.run(self._app, **arguments))


class _ReviewedEndpoint(Endpoint):
    """An operation on the audit log, with the credential that the request brings."""

    def __init__(self, app: App, operation: Operation) -> None:
        self._app = app
        self._operation = operation
        self.methods = ("POST",) if operation.writes else ("POST", "GET")

    async def answer(self, request: Request) -> Response:
        credential = require_reviewer(request.scope)
        arguments = await _given(request, self._operation)
        app = App(self._app.loaded, reviewer_credential=credential)
        return result_response(await self._operation.run(app, **arguments))


class _ReadOnlyEndpoint(Endpoint):
    methods = ("POST",)

    async def answer(self, request: Request) -> Response:  # noqa: ARG002 (whatever it is)
        raise Denied("this server is read-only: it was started with --read-only")


class _OpenApiEndpoint(Endpoint):
    """The description of the API."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._operations = tuple(operations)
        self._body: bytes | None = None

    async def answer(self, request: Request) -> Response:  # noqa: ARG002 (it is always the same)
        if self._body is None:  # describing all results loads what computes them
            document = openapi_document(self._operations)
            self._body = json.dumps(document, indent=2, ensure_ascii=False).encode()
        return Response(self._body, media_type=JSON)


class _InspectorFiles(StaticFiles):
    """The inspector's files. Their pages may contact only this server."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if path == _FIRST_FILE:
            asyncio.get_running_loop().run_in_executor(None, _warm_up)
        response.headers.update(_PAGE_HEADERS)
        return response


@cache
def _warm_up() -> None:
    """Import what the page's first request needs, while the browser loads its scripts."""
    from ctxmgr.core.context.tokens import CL100K, named_vocabulary

    import_module("ctxmgr.surfaces.views.timeline")
    named_vocabulary(CL100K)


async def _protocol_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refused = HttpRefusal(error.status_code, error.detail, headers=error.headers or {})
    return error_response(refused)


async def _given(request: Request, operation: Operation) -> dict[str, Any]:
    """Return the arguments of a request: of its path, and of its query or body."""
    in_path = {name: str(value) for name, value in request.path_params.items()}
    if request.method == "GET":
        return from_query(operation, [*in_path.items(), *request.query_params.multi_items()])
    if request.query_params:
        raise Incorrect("a POST request takes its parameters in the body, not in the query")
    body = await json_body(request, bytes_max=BODY_BYTES_MAX)
    if isinstance(body, dict) and not in_path.keys().isdisjoint(body):
        raise Incorrect(f"{', '.join(in_path)} is part of the path: leave it out of the body")
    return from_json(operation, {**body, **in_path} if isinstance(body, dict) else body)
