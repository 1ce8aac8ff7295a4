"""The MCP server as an agent's client sees it, over both transports and on both stores."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from mcp import Client, MCPError

import ctxmgr as library
from ctxmgr.app import App
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.local_state import remember_folder
from tests.surfaces.mcp.clients import SECONDS, SERVER, call_text, http_url, refused, stdio, value
from tests.surfaces.worked_sessions import Worked, mounts

SECRET = "gh" + "p_" + "A1b2" * 9
on_sqlite = pytest.mark.parametrize("any_store_url", ["sqlite"], indirect=True)


async def test_an_agent_shows_and_reactivates_a_folded_output(worked: Worked) -> None:
    """The main use of the server, on both stores: show, activate."""
    async with stdio(worked.url, "--session", worked.sid) as client:
        folded = await value(client, "deactivate", object_id="/workspace/notes.md")
        text = await call_text(client, "show", name=worked.notes[:12])
        back = await value(client, "activate", object_id=worked.notes)

    assert (folded["level"], back["level"], back["changed"]) == ("metadata", "active", True)
    assert text.endswith("content:\nport = 9090\n")
    assert "_hash" not in text  # D17: they stood before the content, 600 characters of them


@on_sqlite  # elsewhere, all that other tests have stored would be indexed first
async def test_an_agent_finds_a_folded_output(worked: Worked) -> None:
    """What left the prompt is found by its words, with the id to ask for it."""
    async with stdio(worked.url, "--session", worked.sid) as client:
        await value(client, "deactivate", object_id="/workspace/notes.md")
        matches = await call_text(client, "recall", query="port 9090")

    assert f"id={worked.notes} type=file path=/workspace/notes.md" in matches


@on_sqlite
async def test_the_same_server_is_reached_over_http(worked: Worked) -> None:
    """One server for many agents, and no process is started."""
    bound = ("--session", worked.sid)
    async with http_url(worked.url, *bound) as url, Client(url) as one, Client(url) as other:
        pinned = await value(one, "pin", object_id=worked.notes)
        seen = await value(other, "show", name=worked.notes)

    assert pinned["pinned"] is True
    assert seen["pinned"] is True


@on_sqlite
async def test_a_server_without_a_session_reaches_those_of_its_folder(
    worked: Worked, home: Path
) -> None:
    """003-R111, 003-R125: an agent neither reads nor changes what other folders' agents did."""
    async with library.connect(worked.url, tracking=False) as client:
        for name in ("here", "there", "nowhere"):
            session = await client.start(name, system_prompt=f"Prompt of {name}.")
            await session.record(f"call-{name}", tool="bash", args={}, output=f"of {name}\n")
    app = App(load_settings(store=worked.url))
    (home / "work" / "part").mkdir()
    remember_folder(app, "here", folder=home / "work" / "part")
    remember_folder(app, "there", folder=home)

    async with stdio(worked.url) as agent:
        tools = [tool.name for tool in (await agent.list_tools()).tools]
        listed = await value(agent, "sessions")
        resources = [entry.name for entry in (await agent.list_resources()).resources]
        shown = await call_text(agent, "show", session="here", name="call-here")
        errors = [
            await refused(agent, "show", session=name)
            for name in ("there", "nowhere", "absent", "session:there")
        ]
        reached = await refused(agent, "show", session="here", name="call-there")
        for name in ("session:there", "call-there", "call-here", "chat:there"):
            with pytest.raises(MCPError, match="this project has no session"):
                await agent.read_resource(f"ctxmgr://object/{name}")
        with pytest.raises(MCPError, match="unknown tool"):
            await agent.call_tool("deactivate", {"session": "there", "object_id": "call-there"})

    reading = ["recall", "show", "sessions", "diff", "as_of"]
    assert tools == [*reading, "remember", "expand"]
    assert [line["session_id"] for line in listed["sessions"]] == ["here"]
    assert resources == ["here"]
    assert shown.endswith("of here\n")
    assert {(error["code"], error["message"].replace(name, "NAME")) for error, name in
            zip(errors, ("there", "nowhere", "absent", "there"), strict=True)} == {
        ("not_found", "this project has no session 'NAME'; `sessions` lists them")
    }  # fmt: skip
    assert reached["code"] == "denied"


@on_sqlite
async def test_a_client_that_names_its_project_needs_no_session(
    worked: Worked, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude Code tells its servers both; the model knows neither (D2, D3, D9)."""
    project = home / "elsewhere"
    project.mkdir()
    app = App(load_settings(store=worked.url))
    async with library.connect(worked.url, tracking=False) as client:
        for name, folder in (("first", project), ("now", project), ("foreign", home)):
            session = await client.start(name, system_prompt="")
            output = f"the zebra of {name}\n"
            await session.record(f"call-{name}", tool="bash", args={}, output=output)
            await session.end_turn("Done.", user="Find the zebra")
            await client.pause(name)
            remember_folder(app, name, folder=folder)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "first")

    async with stdio(worked.url) as agent:
        found = await call_text(agent, "recall", query="zebra")
        shown = await call_text(agent, "show", object_id="call-now")
        overview = await value(agent, "show")
        denied = await refused(agent, "show", object_id="call-foreign")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "not-yet")
    async with stdio(worked.url, "--session", "not-yet") as agent:
        empty = [await call_text(agent, "recall", query="x"), await call_text(agent, "show")]

    assert "id=call-first" in found
    assert "id=call-now" in found
    assert "foreign" not in found
    assert found.endswith("show prints what has an id in full.\n")
    assert shown.endswith("the zebra of now\n")
    assert overview["session_id"] == "first"
    assert (
        denied["message"] == "no session of this project has seen 'call-foreign'; recall finds ids"
    )
    assert set(empty) == {"session not-yet has nothing yet\n"}


@on_sqlite
async def test_an_agent_learns_neither_the_store_nor_the_hosts_paths(worked: Worked) -> None:
    """003-R151, D7: the database is invisible, and paths are those that the agent uses."""
    asked = [("show", {}), ("show", {"name": worked.notes}), ("as_of", {"valid_time": 1})]
    async with stdio(worked.url, "--session", worked.sid, "--tools", "show,get,history,as_of") as a:
        texts = [str(await a.call_tool(tool, arguments)) for tool, arguments in asked]
        texts.append(await call_text(a, "get", object_id=f"turn:{worked.sid}:1"))
        texts.append(await call_text(a, "history", object_id=worked.notes, documents=True))
        read = await a.read_resource(f"ctxmgr://object/{worked.stub}")
        texts.append(read.contents[0].text)

    everything = "\n".join(texts)
    assert "/workspace/notes.md" in texts[1]
    assert '"/workspace/src/main.py"' in texts[-1]
    assert str(worked.project) not in everything
    assert "filesystemId" not in everything
    assert "sessions.db" not in everything


@on_sqlite
async def test_an_error_does_not_tell_an_agent_where_the_store_is(worked: Worked) -> None:
    """003-R151: a store that fails names its file to the person, in the log."""
    file = Path(worked.url.removeprefix("sqlite:///"))
    async with stdio(worked.url, "--session", worked.sid) as agent:
        await value(agent, "show")
        await asyncio.to_thread(file.write_bytes, b"no store" * 1000)
        await asyncio.to_thread(Path(f"{file}-wal").unlink, missing_ok=True)
        result = await agent.call_tool("show", {"name": worked.notes})

    assert result.is_error
    assert str(file) not in str(result)


@on_sqlite
async def test_a_person_may_let_an_agent_read_everything(worked: Worked) -> None:
    """Only with a flag of its own, and only to read."""
    async with stdio(worked.url, "--all", "--tools", "sessions,show,find") as agent:
        listed = await value(agent, "sessions")
        found = await value(agent, "find", kind="file")

    assert [line["session_id"] for line in listed["sessions"]] == [worked.sid]
    assert len(found["versions"]) == 2


@on_sqlite
def test_one_session_and_all_of_them_exclude_each_other(worked: Worked) -> None:
    """Whoever asks for both has not decided what the agent may reach."""
    both = [sys.executable, *SERVER, "--store", worked.url, "--all", "--session", worked.sid]

    done = subprocess.run(both, capture_output=True, text=True, check=False, input="")

    assert done.returncode == 2
    assert "exclude each other" in done.stderr


@on_sqlite
async def test_a_page_of_another_site_is_refused(worked: Worked) -> None:
    """A browser can send requests to loopback on behalf of any page."""
    async with http_url(worked.url) as url, httpx.AsyncClient() as browser:
        headers = {"Origin": "https://elsewhere.example", "Accept": "application/json"}
        answer = await browser.post(url, json={}, headers=headers)

    assert answer.status_code == 403


@on_sqlite
async def test_as_of_distinguishes_what_was_known_from_what_was_true(worked: Worked) -> None:
    """An agent can ask what it could know when it acted."""
    async with stdio(worked.url, "--session", worked.sid) as client:
        then = await value(client, "as_of", name=worked.notes, valid_time="2999-01-01T00:00:00Z")
        session = await value(client, "show")

    assert then["same"] is True
    assert then["believed"]["char_count"] == len("port = 9090\n")
    assert (session["session_id"], session["turns"]) == (worked.sid, 3)


async def test_an_agent_sees_the_latest_commit_of_another_process(worked: Worked) -> None:
    """A server caches its search index and verified hashes, but no state of the store."""
    async with stdio(worked.url, "--session", worked.sid) as agent:
        before = await call_text(agent, "recall", query="zeppelin")
        async with library.connect(
            worked.url, mounts=mounts(worked.project), tracking=False
        ) as client:
            session = await client.resume(worked.sid)
            await session.record("call-new", tool="bash", args={}, output="a zeppelin\n")
            await session.deactivate("call-new")
        matches = await call_text(agent, "recall", query="zeppelin")
        seen = await value(agent, "show", name="call-new")

    assert "nothing that this session has met holds" in before
    assert "id=call-new" in matches
    assert seen["level"] == "metadata"


@on_sqlite
async def test_a_search_index_may_be_deleted_while_a_server_uses_it(worked: Worked) -> None:
    """It is derived data: the next search rebuilds it, without a restart."""
    index = Path(f"{worked.url.removeprefix('sqlite:///')}.search")
    async with stdio(worked.url, "--session", worked.sid) as agent:
        before = await call_text(agent, "recall", query="port 9090")
        await asyncio.to_thread(index.unlink)
        after = await call_text(agent, "recall", query="port 9090")

    assert after == before
    assert await asyncio.to_thread(index.exists)


@on_sqlite
async def test_a_bound_server_gives_access_only_to_its_session(worked: Worked) -> None:
    """An agent must not read another agent's outputs in the same store."""
    async with library.connect(worked.url, tracking=False) as client:
        other = await client.start("other", system_prompt="Hidden.")
        await other.record("call-other", tool="bash", args={}, output="of another\n")

    async with stdio(worked.url, "--session", worked.sid) as client:
        answers = [
            await refused(client, "show", name="call-other"),
            await refused(client, "show", name="session:other"),
            await refused(client, "as_of", name="chat:other", valid_time=1),
            await refused(client, "activate", object_id="call-other"),
            await refused(client, "pin", object_id="x", session="other"),
        ]
        with pytest.raises(MCPError, match="has not seen"):
            await client.read_resource("ctxmgr://object/call-other")

    codes = [item["code"] for item in answers]
    assert codes == ["denied", "denied", "denied", "not_found", "incorrect"]


@on_sqlite
async def test_what_is_wrong_is_told_with_what_to_do(worked: Worked) -> None:
    """An agent corrects itself by a code, the values, and the next step."""
    async with stdio(worked.url, "--all") as client:
        missing = await refused(client, "log")
        unknown = await refused(client, "log", session="no-such")
        with pytest.raises(MCPError, match="unknown tool 'format_disk'"):
            await client.call_tool("format_disk", {})

    assert (missing["code"], missing["message"]) == ("incorrect", "log: missing session")
    assert (unknown["code"], unknown["next"]) == ("not_found", "")
    assert "(nearest: " in unknown["message"]


@on_sqlite
async def test_objects_are_resources_page_by_page(worked: Worked) -> None:
    """A client lists the objects of the session, and reads current and past versions."""
    async with library.connect(worked.url, mounts=mounts(worked.project), tracking=False) as client:
        session = await client.resume(worked.sid)
        for number in range(120):
            await session.record(f"many-{number}", tool="t", args={}, output=f"{number}\n")

    async with stdio(worked.url, "--session", worked.sid) as agent:
        first = await agent.list_resources()
        rest = await agent.list_resources(cursor=first.next_cursor)
        templates = await agent.list_resource_templates()
        uri = f"ctxmgr://object/{worked.notes}"
        texts = [(await agent.read_resource(uri + at)).contents[0] for at in ("", "?version=1")]

    listed = [entry.uri for entry in (*first.resources, *rest.resources)]
    assert len(first.resources) == 100
    assert (len(listed), len(set(listed)), rest.next_cursor) == (124, 124, None)
    assert [text.text for text in texts] == ["port = 9090\n", "port = 8080\n"]
    assert len(templates.resource_templates) == 2


@on_sqlite
async def test_without_a_session_the_sessions_are_the_resources(worked: Worked) -> None:
    """Somebody who looks at a whole store begins with what there is."""
    async with stdio(worked.url, "--all") as client:
        (listed,) = (await client.list_resources()).resources
        read = (await client.read_resource(listed.uri)).contents[0]
        with pytest.raises(MCPError, match="invalid object URI"):
            await client.read_resource("ctxmgr://elsewhere/x")

    assert (listed.uri, listed.name) == (f"ctxmgr://object/session:{worked.sid}", worked.sid)
    assert (read.mime_type, worked.notes in read.text) == ("application/json", True)


@on_sqlite
async def test_secrets_are_masked_in_results(worked: Worked) -> None:
    """Results go to a provider, like the text that recall quotes."""
    async with library.connect(worked.url, mounts=mounts(worked.project), tracking=False) as client:
        session = await client.resume(worked.sid)
        await session.record("leak", tool="env", args={"k": SECRET}, output=f"token {SECRET}\n")
        (worked.project / f"{SECRET}.txt").write_text("zebra\n", encoding="utf-8")
        await session.read(f"/workspace/{SECRET}.txt")
        await session.render(f"Use {SECRET}.")
        await session.end_turn(f"I use {SECRET}.")

    tools = "show,log,objects,recall,context"
    async with stdio(worked.url, "--session", worked.sid, "--tools", tools) as agent:
        shown = await call_text(agent, "show", name="leak")
        read = (await agent.read_resource("ctxmgr://object/leak")).contents[0].text
        listed = str(await agent.list_resources())
        others = [
            await call_text(agent, name, **arguments)
            for name, arguments in (
                ("show", {}),
                ("log", {"full": True}),
                ("objects", {}),
                ("recall", {"query": "zebra"}),
                ("recall", {"query": SECRET}),
                ("context", {}),
            )
        ]

    assert SECRET not in shown + read + listed + "".join(others)
    assert "[secret:github-token:" in shown
    assert "[secret:github-token:" in read


@on_sqlite
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_server_that_waits_for_input(worked: Worked, sent: int) -> None:
    """It must not need SIGKILL or another line of input."""
    process = await asyncio.create_subprocess_exec(
        *("env", "--default-signal=INT"),  # a shell's background job ignores SIGINT
        *(sys.executable, *SERVER, "--store", worked.url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    async with asyncio.timeout(SECONDS):
        answered = await process.stdout.readline()
        process.send_signal(sent)
        rest = await process.stdout.read()
        code = await process.wait()
    process.stdin.close()

    assert (answered[:1], rest) == (b"{", b"")
    assert code == {signal.SIGTERM: 143, signal.SIGINT: 130}[signal.Signals(sent)]


@on_sqlite
def test_a_server_ends_with_its_input_and_prints_nothing(worked: Worked) -> None:
    """Standard output is reserved for the protocol."""
    command = [sys.executable, *SERVER, "--store", worked.url]

    for given in (subprocess.DEVNULL, subprocess.PIPE):
        with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE) as process:
            printed, _ = process.communicate(timeout=SECONDS)
        assert (process.returncode, printed) == (0, b"")


@pytest.mark.parametrize("package", ["mcp", "mcp_types"])
def test_without_the_package_the_extra_is_named(package: str) -> None:
    """The server is an optional extra; the error says how to install it, as for serve."""
    script = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        "from ctxmgr.surfaces.terminal.cli import main\nsys.argv[1:] = ['mcp', '--json']\nmain()"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, env=dict(os.environ)
    )

    assert done.returncode == 2
    assert json.loads(done.stderr)["error"]["code"] == "extra_missing"
    assert b"pip install 'ctxmgr-agent[mcp]'" in done.stderr
