"""The OpenAPI 3.1 description of the HTTP API, derived from the catalogue."""

from collections.abc import Iterable
from typing import Any, Final

from ctxmgr import __version__
from ctxmgr.surfaces.arguments import body_schema, schema
from ctxmgr.surfaces.error_answers import ANSWERS
from ctxmgr.surfaces.http.answers import codes_by_status
from ctxmgr.surfaces.http.result_schemas import result_schema
from ctxmgr.surfaces.operation import Operation, Parameter

EVENTS_PATH: Final = "/events"
OPENAPI_PATH: Final = "/openapi.json"

_ERROR: Final = {"$ref": "#/components/schemas/Error"}


def path_of(operation: Operation) -> str:
    return operation.path or "/" + operation.name.replace(" ", "-")


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Describe the API that offers these operations."""
    components: dict[str, Any] = {}
    paths = {path_of(operation): _path(operation, components) for operation in operations}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ctxmgr",
            "version": __version__,
            "description": "What an agent's model sees, turn by turn: sessions, objects and their "
            "history. Results are the JSON that `ctxmgr NAME --json` prints.",
        },
        "security": [{}, {"token": []}],
        "paths": {
            **paths,
            EVENTS_PATH: {"get": _EVENTS},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**dict(sorted(components.items())), "Error": _ERROR_SCHEMA},
        },
    }


def _path(operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    described = _summary(operation, result_schema(operation, components))
    in_path = [_in_path(each) for each in operation.remote_parameters if _is_in(operation, each)]
    post = {
        **described,
        "operationId": operation.name,
        **({"parameters": in_path} if in_path else {}),
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _body(operation)}},
        },
    }
    if operation.writes:
        return {"post": post}
    get = {
        **described,
        "operationId": f"{operation.name}-by-query",
        "parameters": [
            *in_path,
            *(
                {
                    "name": parameter.public_name,
                    "in": "query",
                    "required": parameter.required,
                    "description": parameter.param.help,
                    "schema": schema(parameter),
                }
                for parameter in operation.remote_parameters
                if not _is_in(operation, parameter)
            ),
        ],
    }
    return {"post": post, "get": get}


def _is_in(operation: Operation, parameter: Parameter) -> bool:
    return parameter.public_name in operation.path_names


def _in_path(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.public_name,
        "in": "path",
        "required": True,
        "description": parameter.param.help,
        "schema": schema(parameter),
    }


def _body(operation: Operation) -> dict[str, Any]:
    """Describe the body: all parameters but those of the path."""
    described = body_schema(operation)
    required = [name for name in described.pop("required", ()) if name not in operation.path_names]
    properties = {
        name: value
        for name, value in described["properties"].items()
        if name not in operation.path_names
    }
    return {**described, "properties": properties, **({"required": required} if required else {})}


def _summary(operation: Operation, result: dict[str, Any]) -> dict[str, Any]:
    summary, _, rest = operation.help.partition("\n")
    return {
        "summary": summary,
        "description": f"{rest.strip()}\n\nAs a command: `{operation.example}`".strip(),
        "responses": {"200": _ok("The result.", "application/json", result), **_errors()},
    }


def _ok(what: str, kind: str, result: dict[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": {kind: {"schema": result}}}


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
                "fault": {"type": "string", "description": "A summary of what went wrong."},
                "message": {"type": "string", "description": "What happened, with the values."},
                "next": {"type": "string", "description": "What to do about it."},
            },
        }
    },
}

_EVENTS: Final = {
    "summary": "Stream the changes to the store.",
    "description": "Server-sent events. Each has an id; a client that reconnects with "
    "Last-Event-ID misses none. If the server ends a stream, a last event says why: "
    "`dropped` (too slow), `closing` or `failed`.",
    "operationId": "events",
    "parameters": [
        {
            "name": "after",
            "in": "query",
            "description": "Start after this event; `start`: from the store's first event. "
            "Last-Event-ID overrides it. Default: only new events.",
            "schema": {"type": "string", "pattern": "^(start|[0-9]{1,15}\\.[0-9]{1,9})$"},
        },
        {
            "name": "session",
            "in": "query",
            "description": "Only events of this session, and of the objects it has seen.",
            "schema": {"type": "string"},
        },
        {
            "name": "follow",
            "in": "query",
            "description": "Keep the stream open for new events; false: end after the past ones.",
            "schema": {"type": "boolean", "default": True},
        },
    ],
    "responses": {"200": _ok("The events.", "text/event-stream", {"type": "string"}), **_errors()},
}
