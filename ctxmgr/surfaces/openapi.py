"""The HTTP API described, as OpenAPI 3.1, from the catalogue. Touches nothing."""

from collections.abc import Iterable
from typing import Any, Final

from ctxmgr import __version__
from ctxmgr.surfaces.arguments import body_schema, schema
from ctxmgr.surfaces.catalogue import Operation
from ctxmgr.surfaces.exits import ANSWERS
from ctxmgr.surfaces.http_statuses import codes_by_status

EVENTS_PATH: Final = "/events"
OPENAPI_PATH: Final = "/openapi.json"

_ERROR: Final = {"$ref": "#/components/schemas/Error"}


def path_of(operation: Operation) -> str:
    return "/" + operation.name.replace(" ", "-")


def description(operations: Iterable[Operation]) -> dict[str, Any]:
    """Describe the API that offers these operations."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ctxmgr",
            "version": __version__,
            "description": "What an agent's model sees, turn by turn: sessions, objects and their "
            "past. Results are what `ctxmgr NAME --json` prints.",
        },
        "security": [{}, {"token": []}],
        "paths": {
            **{path_of(each): _path(each) for each in operations},
            EVENTS_PATH: {"get": _EVENTS},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR_SCHEMA},
        },
    }


def _path(operation: Operation) -> dict[str, Any]:
    posted = {
        **_about(operation),
        "operationId": operation.name,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": body_schema(operation)}},
        },
    }
    if operation.writes:
        return {"post": posted}
    asked = {
        **_about(operation),
        "operationId": f"{operation.name}-by-query",
        "parameters": [
            {
                "name": each.shown_name,
                "in": "query",
                "required": each.required,
                "description": each.param.help,
                "schema": schema(each),
            }
            for each in operation.parameters
        ],
    }
    return {"post": posted, "get": asked}


def _about(operation: Operation) -> dict[str, Any]:
    summary, _, rest = operation.help.partition("\n")
    return {
        "summary": summary,
        "description": f"{rest.strip()}\n\nAs a command: `{operation.example}`".strip(),
        "responses": {"200": _ok("The result.", "application/json"), **_errors()},
    }


def _ok(what: str, kind: str) -> dict[str, Any]:
    return {"description": what, "content": {kind: {"schema": {}}}}


def _errors() -> dict[str, Any]:
    return {
        str(status): {
            "description": "; ".join(f"{code}: {ANSWERS[code].fault}" for code in codes),
            "content": {"application/json": {"schema": _ERROR}},
        }
        for status, codes in codes_by_status().items()
    }


_ERROR_SCHEMA: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "fault", "message", "next"],
            "properties": {
                "code": {"type": "string", "enum": list(ANSWERS)},
                "fault": {"type": "string", "description": "Who or what is at fault."},
                "message": {"type": "string", "description": "What happened, with the values."},
                "next": {"type": "string", "description": "What to do about it."},
            },
        }
    },
}

_EVENTS: Final = {
    "summary": "Listen to what happens in the store.",
    "description": "Server-sent events. Each has an id; a client that connects again with "
    "Last-Event-ID misses none. A stream that the server ends says why with a last event: "
    "`dropped` (too slow), `closing` or `failed`.",
    "operationId": "events",
    "parameters": [
        {
            "name": "after",
            "in": "query",
            "description": "Begin after this event; `start`: with the first of the store. "
            "Last-Event-ID overrules it. Default: only what happens from now on.",
            "schema": {"type": "string", "pattern": "^(start|[0-9]{1,15}\\.[0-9]{1,9})$"},
        },
        {
            "name": "session",
            "in": "query",
            "description": "Only events of this session, and of the objects it has met.",
            "schema": {"type": "string"},
        },
        {
            "name": "follow",
            "in": "query",
            "description": "Stay, and tell what is to come; false: end when all is told.",
            "schema": {"type": "boolean", "default": True},
        },
    ],
    "responses": {"200": _ok("The events.", "text/event-stream"), **_errors()},
}
