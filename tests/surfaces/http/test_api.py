"""The HTTP API as clients see it: derived from the catalogue, real server, on either store."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result

from ctxmgr import errors, open_store
from ctxmgr.surfaces.arguments import read_instant
from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.error_answers import ANSWERS
from ctxmgr.surfaces.http.answers import STATUSES, code_of, codes_by_status, status_of
from ctxmgr.surfaces.http.api import BODY_BYTES_MAX, LEFT_OUT, offered_operations
from ctxmgr.surfaces.http.openapi import openapi_document, path_of
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked, json_of, work_three_turns

JSON = {"content-type": "application/json"}


@pytest.fixture
def server(worked: Worked) -> Iterator[Server]:
    with serving(worked.url) as running:
        yield running


@pytest.fixture
async def local(home: Path) -> Worked:
    """A session in the embedded store, for tests that do not depend on the store."""
    return await work_three_turns(f"sqlite:///{home}/sessions.db", home / "project")


def test_every_operation_is_offered_or_left_out_with_a_reason() -> None:
    """A new operation is served unless there is a stated reason not to."""
    names = {item.name for item in OPERATIONS}

    assert set(LEFT_OUT) <= names
    assert {operation.name for operation in offered_operations(OPERATIONS)} == names - set(LEFT_OUT)
    assert all(LEFT_OUT.values())


def test_no_offered_operation_takes_a_path_of_the_server() -> None:
    """Remote clients must not name files on the server."""
    taken = {
        parameter.type
        for operation in offered_operations(OPERATIONS)
        for parameter in operation.remote_parameters
    }

    assert Path not in taken


def test_every_error_has_a_status_and_every_status_a_code() -> None:
    """A client reads the same table backwards; a code without a status would be our fault."""
    kinds = [entry for entry in vars(errors).values() if hasattr(entry, "code")]

    assert {kind.code for kind in kinds} == set(STATUSES) == set(ANSWERS)
    for status, codes in codes_by_status().items():
        assert code_of(status) == codes[0]
    assert all(status_of(code_of(status_of(code))) == status_of(code) for code in STATUSES)


def test_a_damaged_bundle_is_the_clients_fault() -> None:
    """Retrying the same bundle cannot help, and the server has no problem."""
    assert status_of("bundle_damaged") == 422


def test_the_description_has_every_parameter_of_every_operation() -> None:
    """A generated client can say all that a command line can, except what grants this machine."""
    result = openapi_document(offered_operations(OPERATIONS))["paths"]

    for operation in offered_operations(OPERATIONS):
        body = result[path_of(operation)]["post"]["requestBody"]["content"]["application/json"]
        in_path = {
            each["name"] for each in result[path_of(operation)]["post"].get("parameters", ())
        }
        parts = {
            (outer, inner)
            for outer, value in body["schema"]["properties"].items()
            for inner in value.get("properties", {None: None})
        }
        remote = [each for each in operation.parameters if not each.param.local]
        assert parts | {(name, None) for name in in_path} == {
            each.param.part_of or (each.public_name, None) for each in remote
        }
        assert ("get" in result[path_of(operation)]) is not operation.writes


def test_a_result_equals_the_commands_json_output(
    worked: Worked, server: Server, ctxmgr: Callable[..., Result]
) -> None:
    """A program can switch surfaces without changing how it parses results."""
    asked: dict[str, dict[str, Any]] = {
        "sessions": {"limit": 5},
        "show": {"name": worked.sid},
        "objects": {"session": worked.sid, "level": "active"},
        "log": {"session": worked.sid},
        "context": {"session": worked.sid, "turn": 2},
        "get": {"object_id": worked.notes},
        "history": {"object_id": worked.notes},
        "diff": {"name": worked.notes, "from": 1, "to": 2},
    }

    for name, given in asked.items():
        positional = {"name", "session", "object_id"}
        words = [str(value) for key, value in given.items() if key in positional]
        flags = [f"--{key}={value}" for key, value in given.items() if key not in positional]
        printed = ctxmgr(name, *words, *flags, "--json", "--store", worked.url)
        assert server.post(f"/{name}", **given).json() == json_of(printed), name
        assert server.get(f"/{name}", **given).json() == json_of(printed), name


def test_a_session_can_be_changed_and_read_as_of_the_past(worked: Worked, server: Server) -> None:
    """The inspector does this: fold a file, see the change, and query the earlier state."""
    before = server.get("/status").json()["sequence"]

    folded = server.post("/deactivate", session=worked.sid, object_id="/workspace/notes.md")

    assert folded.json()["level"] == "metadata"
    then = server.get("/get", object_id=f"session:{worked.sid}", sequence=before).json()
    now = server.get("/get", object_id=f"session:{worked.sid}").json()
    assert worked.notes in then["document"]["active_set"]
    assert worked.notes not in now["document"]["active_set"]
    when = read_instant(now["valid_time"]) - 1
    past = server.get("/as-of", object_id=worked.sid, valid_time=when).json()
    assert past["active"] == len(then["document"]["active_set"])


def test_a_list_is_read_page_by_page(local: Worked) -> None:
    """A cursor is passed through a query string unchanged."""
    with serving(local.url) as server:
        first = server.get("/find", kind="toolcall", where="status=ok", limit=1).json()
        both = server.post("/find", kind="toolcall", where=["tool=t", "status=fail"]).json()
        page = server.get("/objects", session=local.sid, limit=1).json()
        more = server.get("/objects", session=local.sid, limit=1, cursor=page["cursor"]).json()

    assert len(first["versions"]) == 1
    assert [version["object_id"] for version in both["versions"]] == [f"{local.sid}-2"]
    assert page["objects"] != more["objects"]


@pytest.mark.parametrize(
    ("path", "given", "status", "code"),
    [
        ("/get", {"object_id": "nobody"}, 404, "not_found"),
        ("/get", {"object_id": "x", "colour": "red"}, 400, "incorrect"),
        ("/get", {"object_id": "x", "valid_time": "yesterday"}, 400, "incorrect"),
        ("/get", {"object_id": "x", "sequence": True}, 400, "incorrect"),
        ("/get", {"object_id": "x", "sequence": 10**30}, 400, "incorrect"),
        ("/get", {"object_id": "\ud800"}, 400, "incorrect"),
        ("/get", {}, 400, "incorrect"),
        ("/get", {"object_id": None}, 400, "incorrect"),
        ("/find", {"kind": "file", "limit": 0}, 400, "incorrect"),
        ("/nothing", {}, 405, "incorrect"),
        ("/vacuum", {}, 405, "incorrect"),
    ],
)
def test_an_invalid_request_gets_a_status_and_a_code(
    quiet_server: Server, path: str, given: dict[str, Any], status: int, code: str
) -> None:
    """The body is the error that `--json` prints, so that one parser serves both."""
    body = json.dumps(given).encode()
    answer = httpx.post(quiet_server.url + path, content=body, headers=JSON)

    assert answer.status_code == status, answer.text
    assert set(answer.json()["error"]) == {"code", "fault", "message", "next"}
    assert answer.json()["error"]["code"] == code


def test_a_chat_cannot_be_activated(worked: Worked, server: Server) -> None:
    """003-R025: an infrastructure object has a fixed place on every surface."""
    answer = server.post("/activate", session=worked.sid, object_id=f"chat:{worked.sid}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "not_content")


def test_a_body_that_is_not_json_or_too_large_is_refused(quiet_server: Server) -> None:
    """Other sites can post plain text, and no client may exhaust the server's memory."""
    url = f"{quiet_server.url}/get"

    text = httpx.post(url, content=b'{"object_id": "x"}', headers={"content-type": "text/plain"})
    broken = httpx.post(url, content=b"{", headers=JSON)
    deep = httpx.post(url, content=b"[" * 100_000, headers=JSON)
    large = httpx.post(url, content=b" " * (BODY_BYTES_MAX + 1), headers=JSON)

    statuses = [answer.status_code for answer in (text, broken, deep, large)]
    assert statuses == [415, 400, 400, 413]


def test_writing_requires_post(quiet_server: Server) -> None:
    """Following a link must not change a session."""
    answer = quiet_server.get("/pin", session="s", object_id="x")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_read_only_server_refuses_writes(local: Worked) -> None:
    """An archive can be inspected but not changed."""
    with serving(local.url, "--read-only") as server:
        refused = server.post("/pin", session=local.sid, object_id=local.notes)
        read = server.get("/objects", session=local.sid)
        result = server.get("/openapi.json").json()["paths"]

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "denied")
    assert read.status_code == 200
    assert "/pin" not in result


def test_the_page_at_the_root_loads_nothing_from_elsewhere(quiet_server: Server) -> None:
    """Opening the address shows the inspector, and no other site learns of it."""
    page = quiet_server.get("/")

    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert "http" not in page.text.replace("/openapi.json", "")
    assert quiet_server.get("/nothing-here").json()["error"]["code"] == "not_found"


@pytest.fixture(scope="module")
def quiet_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on an empty store, for invalid requests."""
    folder = tmp_path_factory.mktemp("empty")
    with serving(empty_store(folder)) as running:
        yield running


def empty_store(folder: Path) -> str:
    """Create an empty store and return its URL."""

    async def make() -> None:
        await (await open_store(f"sqlite:///{folder}/empty.db")).close()

    asyncio.run(make())
    return f"sqlite:///{folder}/empty.db"
