"""Whatever an input holds, it is read or refused: no input is a bug, and none takes long.

Each format gets random values, and valid examples in which random parts are exchanged. Only errors
of ``ctxmgr.errors`` may come out. The settings are small enough to run with every change.
"""

import asyncio
import copy
import json
import math
import os
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from ctxmgr import Mounts, connect
from ctxmgr.app import App
from ctxmgr.core.files.mount_settings import read_mappings
from ctxmgr.core.store.documents import check_value
from ctxmgr.errors import CtxmgrError, Incorrect
from ctxmgr.integrations.agents.capture import OpenTurn, capture_events
from ctxmgr.integrations.agents.events import AgentEvent, parse_event
from ctxmgr.integrations.agents.spool import SpooledEvent
from ctxmgr.messages.forms import FORMS as MESSAGE_FORMS
from ctxmgr.recordings.formats import FORMATS, read_recording
from ctxmgr.recordings.import_session import import_recording
from ctxmgr.settings import load_settings, trust_folder
from ctxmgr.surfaces.arguments import from_json, from_query
from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.http.api import build, offered_operations
from ctxmgr.surfaces.http.event_hub import EventHub
from ctxmgr.surfaces.http.openapi import path_of
from ctxmgr.surfaces.mcp.resources import read_uri
from ctxmgr.surfaces.mcp.tools import McpScope, choose_tools, tool_name
from ctxmgr.surfaces.scopes import CONFINED

T = TypeVar("T")

quick = settings(
    max_examples=40,
    deadline=20_000,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
"""Milliseconds for one input: a busy machine, and still far from a reader that never ends."""

RECORDINGS = sorted((Path(__file__).parent / "recordings" / "fixtures").iterdir())

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["\ud800", "\0", "", " ", "s1", "session:s1", "chat:s1", "turn:s1:1", "/etc/passwd", "../x"]
    ),
    st.sampled_from(["1", "-1", "99999999999999999999", "1e309", "2026-01-01T00:00:00", "null"]),
)
numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([10**400, -(10**400), 2**63, 2**64, math.inf, -math.inf, math.nan, -0.0]),
)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)


def nested(levels: int, *, of: str) -> bytes:
    return (of * levels).encode()


deep = st.builds(
    nested, st.sampled_from([200, 2_000, 100_000]), of=st.sampled_from(["[", '{"a":', '[{"b":'])
)


@pytest.fixture(scope="module", autouse=True)
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A machine on which ctxmgr was never used."""
    home = tmp_path_factory.mktemp("machine")
    (home / "work").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DATA", "STATE", "CONFIG", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
        for name in [name for name in os.environ if name.startswith("CTXMGR_")]:
            if name != "CTXMGR_XTDB_LIB":
                patch.delenv(name)
        patch.chdir(home / "work")
        yield home


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def app(loop: asyncio.Runner, machine: Path) -> Iterator[App]:
    """A store with one session of one turn, for all inputs."""
    app = App(load_settings(store="sqlite://:memory:"))

    async def fill() -> None:
        async with connect(store=await app.store(), tracking=False) as client:
            session = await client.start("s1", system_prompt="Be careful.")
            await session.render("Look.")
            await session.record("s1-call", tool="bash", args={"command": "ls"}, output="a\n")
            await session.end_turn("Done.")

    loop.run(fill())
    yield app
    loop.run(app.close())


@pytest.fixture(scope="module")
def api(app: App, loop: asyncio.Runner) -> Starlette:
    return build(
        app,
        EventHub(loop.run(app.store())),
        operations=OPERATIONS,
        loopback=True,
        keys=None,
        token_required=False,
        read_only=False,
        rate_per_second=10**6,
    )


def read_or_refused(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except CtxmgrError as error:
        error.args[0].encode("utf-8", "backslashreplace")
        return None


def refused_or_returned(coroutine: Coroutine[Any, Any, T], loop: asyncio.Runner) -> T | None:
    try:
        return loop.run(coroutine)
    except CtxmgrError:
        return None


@st.composite
def exchanged(draw: st.DrawFn, whole: Any) -> Any:
    """A valid value in which up to three random parts are exchanged, removed or repeated."""
    changed = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        inside, key = changed, None
        for _ in range(draw(st.integers(1, 6))):
            container = inside if key is None else inside[key]
            keys = list(container) if isinstance(container, dict) else None
            if isinstance(container, list):
                keys = list(range(len(container)))
            if not keys:
                break
            inside, key = container, draw(st.sampled_from(keys))
        if key is None:
            continue
        match draw(st.sampled_from(["exchange", "remove", "repeat"])):
            case "exchange":
                inside[key] = draw(values)
            case "remove":
                del inside[key]
            case "repeat" if isinstance(inside, list):
                inside.append(copy.deepcopy(inside[key]))
    return changed


@quick
@given(
    st.one_of(
        st.binary(max_size=60),
        st.builds(
            lambda names, value: "\n".join(f"{name} = {value}" for name in names).encode(),
            st.lists(
                st.sampled_from(
                    ["store", "token", "ca_file", "model", "api", "telemetry", "x", '"\\u0000"']
                ),
                max_size=3,
            ),
            st.one_of(
                st.sampled_from(
                    ["9" * 5_000, "[" * 3_000, "1e999", "nan", "1979-05-27", '"\\u0000"', "{a=1}"]
                ),
                st.text(st.characters(blacklist_categories=["Cs"]), max_size=20).map(json.dumps),
            ),
        ),
    )
)
def test_settings_files(machine: Path, data: bytes) -> None:
    """A project, or an agent, may have put any bytes there."""
    (machine / "work" / "ctxmgr.toml").write_bytes(data)
    try:
        read_or_refused(load_settings)
        read_or_refused(trust_folder)
    finally:
        (machine / "work" / "ctxmgr.toml").unlink()


@quick
@given(
    st.one_of(st.binary(max_size=40), deep, values.map(lambda value: json.dumps(value).encode()))
)
def test_hook_input(data: bytes) -> None:
    """What stands on standard input is an event, or a mistake."""
    event = read_or_refused(lambda: parse_event(data))

    assert event is None or isinstance(event, dict)


EVENT = {
    "hook_event_name": "PostToolUse",
    "session_id": "h1",
    "cwd": "/work",
    "transcript_path": "/none.jsonl",
    "tool_name": "Bash",
    "tool_use_id": "h1-1",
    "tool_input": {"command": "ls", "file_path": "/work/a"},
    "tool_response": {"stdout": "a\n", "stderr": ""},
}


@settings(quick, max_examples=25)
@given(
    exchanged(EVENT), st.sampled_from(["PostToolUse", "PostToolUseFailure", "PostCompact", "Stop"])
)
def test_hook_events(
    app: App, loop: asyncio.Runner, machine: Path, event: dict[str, Any], name: str
) -> None:
    """Tools and their outputs have any shape, and are stored or refused."""
    event = {**event, "hook_event_name": event.get("hook_event_name") and name}
    store = loop.run(app.store())

    async def capture() -> None:
        data = json.dumps(event).encode()
        spooled = SpooledEvent(at=1, project="", client_folder="/none", data=data)
        await capture_events(
            store,
            [AgentEvent.read(spooled)],
            project=machine,
            turn=OpenTurn(),
            refuse=lambda _event, _reason: None,
        )

    refused_or_returned(capture(), loop)


@quick
@given(st.data(), st.sampled_from(RECORDINGS), st.sampled_from([None, *sorted(FORMATS)]))
def test_recordings(data: st.DataObject, file: Path, form: str | None) -> None:
    """A file from somewhere, perhaps of another version of its harness, perhaps made to harm."""
    text = file.read_text(encoding="utf-8")
    try:
        whole = json.loads(text)
    except ValueError:
        whole = [json.loads(line) for line in text.splitlines() if line.strip()]
        lines = [json.dumps(entry) for entry in data.draw(exchanged(whole))]
        content = "\n".join(lines).encode()
    else:
        content = json.dumps(data.draw(exchanged(whole))).encode()

    recording = read_or_refused(lambda: read_recording(content, form=form))

    assert recording is None or recording.turns


@quick
@given(
    st.one_of(
        st.binary(max_size=60),
        deep,
        values.map(lambda value: json.dumps(value).encode()),
        st.lists(values, max_size=3).map(lambda many: "\n".join(map(json.dumps, many)).encode()),
        st.sampled_from([b'{"a":' + b"9" * 5_000 + b"}", "[]".encode("utf-16"), b"\xef\xbb\xbf{}"]),
    ),
    st.sampled_from([None, *sorted(FORMATS)]),
)
def test_files_that_are_no_recording(data: bytes, form: str | None) -> None:
    """Any bytes under any name."""
    recording = read_or_refused(lambda: read_recording(data, form=form))

    assert recording is None or recording.turns


@settings(quick, max_examples=12)
@given(st.data(), st.sampled_from(RECORDINGS), st.integers(0, 10**12))
def test_recordings_are_stored_or_refused(
    app: App, loop: asyncio.Runner, data: st.DataObject, file: Path, number: int
) -> None:
    """What a reader accepts, a store can hold."""
    text = file.read_text(encoding="utf-8")
    try:
        entries = json.loads(text)
    except ValueError:
        entries = [json.loads(line) for line in text.splitlines() if line.strip()]
    try:
        recording = read_recording(json.dumps(data.draw(exchanged(entries))).encode())
    except Incorrect:
        return

    async def store_it() -> None:
        async with connect(store=await app.store(), tracking=False) as client:
            await import_recording(client, recording, session_id=f"fuzz-{number}")

    refused_or_returned(store_it(), loop)


mount = st.fixed_dictionaries(
    {},
    optional={
        "agentPrefix": st.one_of(texts, values, st.just("/w")),
        "canonicalPrefix": st.one_of(texts, values, st.just("/tmp")),
        "filesystemId": st.one_of(texts, values),
        "other": values,
    },
)


@quick
@given(st.lists(st.one_of(mount, values), max_size=3), texts)
def test_mounts(mounts: list[Any], path: str) -> None:
    """A harness reads them from a file of its own."""
    mappings = read_or_refused(lambda: read_mappings(mounts, host_id="host"))
    read = read_or_refused(lambda: Mounts.of_sandbox(mappings or (), own_id="own"))
    translated = None if read is None else read_or_refused(lambda: read.forward(path))

    assert translated is None or translated.path.startswith("/")


@quick
@given(st.sampled_from(OPERATIONS), values, st.lists(st.tuples(texts, texts), max_size=4))
def test_arguments(operation: Any, body: Any, query: list[tuple[str, str]]) -> None:
    """A JSON body and a query are checked before an operation sees them."""
    for reader in (lambda: from_json(operation, body), lambda: from_query(operation, query)):
        read = read_or_refused(reader)
        assert read is None or isinstance(read, dict)


arguments = st.dictionaries(
    st.sampled_from(
        [
            "session",
            "name",
            "object_id",
            "turn",
            "limit",
            "cursor",
            "before",
            "query",
            "version",
            "valid_time",
            "system_time",
            "sequence",
            "kind",
            "where",
            "order",
            "after",
            "level",
            "from",
            "to",
            "from_turn",
            "to_turn",
            "form",
            "tokens",
            "last",
            "full",
            "mount",
        ]
    ),
    st.one_of(values, texts, st.integers(-3, 3), st.booleans()),
    max_size=4,
)


@quick
@given(
    st.sampled_from(offered_operations(OPERATIONS)),
    st.one_of(arguments.map(lambda given: {"session": "s1", **given}), arguments),
    st.sampled_from(["GET", "POST"]),
)
def test_http_requests(
    api: Starlette, loop: asyncio.Runner, operation: Any, given: dict[str, Any], method: str
) -> None:
    """Every operation, with any arguments: a status below 500, and JSON that says what is wrong."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            path = path_of(operation)
            if method == "GET" and not operation.writes:
                pairs = {name: ascii(value) for name, value in given.items()}
                return await client.get(path, params=pairs)
            headers = {"content-type": "application/json"}
            return await client.post(path, content=json.dumps(given).encode(), headers=headers)

    response = loop.run(ask())

    assert response.status_code < 500, response.text
    assert isinstance(json.loads(response.content), dict | list | str)


BOUND = McpScope(session_id="s1")
TOOLS = [
    tool
    for scope in (BOUND, McpScope(), McpScope(project=lambda: ("s1",)))
    for operation in OPERATIONS
    if scope.offers(operation)
    for tool in choose_tools(OPERATIONS, tool_name(operation), scope=scope)
]


@quick
@given(st.sampled_from(TOOLS), arguments)
def test_mcp_arguments(app: App, loop: asyncio.Runner, tool: Any, given: dict[str, Any]) -> None:
    """An agent sends what its model made up."""

    async def call() -> None:
        read = tool.arguments(given)
        session_id = tool.scope.session_of(read) if tool.operation.name in CONFINED else None
        if session_id is not None or tool.scope.project is None:
            await tool.operation.run(app, **read)

    refused_or_returned(call(), loop)


@quick
@given(texts)
def test_resource_uris(uri: str) -> None:
    """A URI of an agent names an object and perhaps a version."""
    for text in (uri, f"ctxmgr://object/{uri}", f"ctxmgr://object/x?version={uri}"):
        named = read_or_refused(partial(read_uri, text))
        assert named is None or named[0]


ANTHROPIC_REPLY = {
    "id": "msg_1",
    "model": "m",
    "stop_reason": "tool_use",
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
    ],
    "usage": {"input_tokens": 3, "output_tokens": 4},
}
OPENAI_REPLY = {
    "id": "r1",
    "model": "m",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}


@quick
@given(st.data(), st.sampled_from([("anthropic", ANTHROPIC_REPLY), ("openai", OPENAI_REPLY)]))
def test_model_replies(
    app: App, loop: asyncio.Runner, data: st.DataObject, api: tuple[str, dict[str, Any]]
) -> None:
    """Servers that speak an API speak it in many ways; what a turn takes can be stored."""
    name, reply = api
    form = MESSAGE_FORMS[name].api
    assert form is not None
    try:
        answer = form.read_answer(data.draw(exchanged(reply)), session_id="s1", turn=2)
    except CtxmgrError:
        return
    for call in answer.calls:
        assert isinstance(call.args, dict)
    check_value([dict(part) for part in answer.parts], where="parts", depth=3)
    check_value(answer.meta.to_value() if answer.meta else None, where="meta", depth=3)
