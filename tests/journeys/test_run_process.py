"""``ctxmgr run`` as users run it: a process that is interrupted, killed, and resumed."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr import open_store
from ctxmgr.harness.loop import ANSWERS_MAX, TURNS_MAX
from tests.components import ROOT
from tests.journeys.run_processes import SECONDS, Shell
from tests.journeys.runs import Fifo
from tests.models.model_server import APIS, KEY, ModelServer, breaks, refuse, says
from tests.models.wire import Call, Text

WRITE = Call("bash", {"command": "seq -s: 3 > answer; ls"})
READ = Call("read", {"path": "answer"})
DONE = says(Text("It says 123."))


on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""For what does not depend on the store: a server would only be slower."""


@pytest.fixture
async def shell(store_url: str, project: Path, tmp_path: Path) -> AsyncIterator[Shell]:
    (tmp_path / "home").mkdir()
    async with ModelServer() as server:
        yield Shell(server, store_url, project, tmp_path / "home")


@on_sqlite
@pytest.mark.parametrize("api", APIS)
async def test_a_run_ends_with_one_object_on_standard_output(shell: Shell, api: str) -> None:
    """Programs read the result; people read the progress on standard error."""
    shell.server.script(says(Text("Let me look."), WRITE), says(READ), DONE)

    ended = await shell.run(*shell.new("What is the answer?", api=api))

    result = ended.result
    assert (ended.exit_code, result["outcome"], result["answer"]) == (0, "done", "It says 123.")
    assert [row["tools"] for row in result["turns"]] == [["bash"], ["read"], []]
    assert result["resume"] is None
    assert "Let me look." in ended.err
    assert "→ bash  seq -s: 3 > answer; ls" in ended.err


@on_sqlite
async def test_people_see_the_streamed_answer_and_then_a_table(shell: Shell) -> None:
    """The answer is streamed and not repeated; the table has one row per turn."""
    shell.server.script(says(Text("Let me look."), WRITE), DONE)

    ended = await shell.run(*shell.new("What is the answer?"), as_json=False)

    lines = ended.out.splitlines()
    assert (ended.exit_code, ended.err) == (0, "")
    assert lines[1:4] == ["Let me look.", "→ bash  seq -s: 3 > answer; ls", "  ok    3 lines"]
    assert ended.out.count("It says 123.") == 1
    assert [line.split()[0] for line in lines[-3:]] == ["turn", "1", "2"]


async def test_a_run_interrupted_during_an_answer_can_be_resumed(shell: Shell) -> None:
    """SIGINT leaves no partial turn; the task is stored and need not be repeated."""
    shell.server.script(breaks(says(Text("Let me see"), WRITE), after=5, then="hang"), DONE)

    async with shell.running(*shell.new("Find the answer.")) as running:
        await asyncio.wait_for(shell.server.silent.wait(), SECONDS)
        running.process.send_signal(signal.SIGINT)
        ended = await running.ended()
    state = await _stored(shell, f"lifecycle:{ended.result['session']}")
    later = await shell.run("--session", ended.result["session"])

    assert (ended.exit_code, ended.result["outcome"]) == (130, "interrupted")
    assert ended.result["turns"] == []
    assert ended.result["resume"].startswith("ctxmgr run --session run-")
    assert state["state"] == "paused"
    assert (later.exit_code, later.result["answer"]) == (0, "It says 123.")
    assert "Find the answer." in shell.server.requests[1].text


async def test_a_run_interrupted_during_a_tool_call_stores_its_turn(shell: Shell) -> None:
    """The agent may have changed the disk, which the resumed run must know."""
    fifo = Fifo(shell.project)
    shell.server.script(says(WRITE, Call("bash", {"command": fifo.command}), READ), DONE)

    async with shell.running(*shell.new("Find the answer.")) as running:
        await asyncio.wait_for(asyncio.to_thread(fifo.wait), SECONDS)
        running.process.send_signal(signal.SIGINT)
        ended = await running.ended()
    chat = await _stored(shell, f"chat:{ended.result['session']}")
    later = await shell.run("--session", ended.result["session"])

    assert ended.exit_code == 130
    assert [row["tools"] for row in ended.result["turns"]] == [["bash", "bash", "read"]]
    assert len(chat["turns"][0]["toolcall_ids"]) == 2
    assert later.result["turns"][0]["turn"] == 2
    assert "this tool call was not run" in shell.server.requests[1].text


@on_sqlite
async def test_sigterm_ends_a_run_cleanly(shell: Shell) -> None:
    """Service managers send SIGTERM."""
    shell.server.script(breaks(DONE, after=4, then="hang"))

    async with shell.running(*shell.new("Find the answer.")) as running:
        await asyncio.wait_for(shell.server.silent.wait(), SECONDS)
        running.process.terminate()
        ended = await running.ended()

    assert (ended.exit_code, ended.result["outcome"]) == (143, "interrupted")


async def test_a_kill_during_a_turn_loses_nothing_acknowledged(shell: Shell) -> None:
    """kill -9 with one tool call stored and one running: the first is kept, the turn continues.

    Rows: 003-R180, 003-A20, PG-07.
    """
    fifo = Fifo(shell.project)
    shell.server.script(says(WRITE, Call("bash", {"command": fifo.command})), says(READ), DONE)

    async with shell.running(*shell.new("Find the answer."), cold=True) as running:
        session = await running.session()
        await asyncio.wait_for(asyncio.to_thread(fifo.wait), SECONDS)
        running.process.kill()
        await running.ended()
    first = await _stored(shell, f"{session}:1:call_0")
    later = await shell.run("--session", session)
    chat = await _stored(shell, f"chat:{session}")

    assert first["content"] == "answer\nhere\nnotes.md\nsrc\n"
    assert (later.exit_code, later.result["answer"]) == (0, "It says 123.")
    assert "Find the answer." in shell.server.requests[1].text
    assert "its turn was interrupted]\\nanswer\\nhere\\nnotes.md" in shell.server.requests[1].text
    assert chat["turns"][0]["user"] == "Find the answer."
    assert chat["turns"][0]["toolcall_ids"] == [f"{session}:1:call_0", f"{session}:1:call_0.2"]


async def test_a_kill_during_an_answer_does_not_lose_the_task(shell: Shell) -> None:
    """The assignment is stored before the model is called."""
    shell.server.script(breaks(DONE, after=4, then="hang"), DONE)

    async with shell.running(*shell.new("Find the answer."), cold=True) as running:
        session = await running.session()
        await asyncio.wait_for(shell.server.silent.wait(), SECONDS)
        running.process.kill()
        await running.ended()
    later = await shell.run("--session", session)

    assert (later.exit_code, later.result["answer"]) == (0, "It says 123.")
    assert "Find the answer." in shell.server.requests[1].text


@on_sqlite
async def test_a_session_that_runs_elsewhere_is_taken_over_only_on_purpose(shell: Shell) -> None:
    """Two runs of one session both pay for answers, and only one of them can store its own."""
    shell.server.script(breaks(DONE, after=4, then="hang"), DONE)

    async with shell.running(*shell.new("Find the answer.")) as running:
        session = await running.session()
        await asyncio.wait_for(shell.server.silent.wait(), SECONDS)
        refused = await shell.run("--session", session)
        asked = len(shell.server.requests)
        taken = await shell.run("--session", session, "--take-over")
        running.process.kill()
        await running.ended()

    assert refused.exit_code == 2
    assert "is open in process" in refused.err
    assert asked == 1
    assert (taken.exit_code, taken.result["answer"]) == (0, "It says 123.")


@on_sqlite
async def test_a_session_continues_with_a_new_task_and_another_api(shell: Shell) -> None:
    """Another model can continue the session; without a task there is nothing to do."""
    shell.server.script(says(WRITE), DONE, says(Text("Gone.")))
    first = (await shell.run(*shell.new("Find the answer.", api="openai"))).result

    idle = await shell.run("--session", first["session"])
    more = await shell.run(*shell.new("Remove it."), "--session", first["session"])

    assert idle.exit_code == 2
    assert "has nothing left to do; give it a new task" in idle.err
    assert (more.exit_code, more.result["turns"][0]["turn"]) == (0, 3)
    assert shell.server.requests[2].api == "anthropic"
    assert "It says 123." in shell.server.requests[2].text


@on_sqlite
async def test_a_run_that_reaches_its_limit_says_how_to_continue(shell: Shell) -> None:
    """It exits with 1: neither done nor an error."""
    shell.server.script(says(WRITE), DONE)

    ended = await shell.run(*shell.new("Find the answer."), "--max-turns", "1")
    later = await shell.run("--session", ended.result["session"])

    assert (ended.exit_code, ended.result["outcome"]) == (1, "max_turns")
    assert f"--session {ended.result['session']}" in ended.result["resume"]
    assert (later.exit_code, later.result["turns"][0]["turn"]) == (0, 2)


@on_sqlite
async def test_a_budget_in_dollars_needs_a_price(shell: Shell) -> None:
    """A budget that cannot be kept is refused before anything runs or is paid."""
    ended = await shell.run(*shell.new("Find the answer."), "--max-usd", "1")

    assert ended.exit_code == 2
    assert "max_usd needs the price of" in ended.err
    assert shell.server.requests == []


@on_sqlite
async def test_a_refused_key_is_reported_and_never_printed(shell: Shell) -> None:
    """Scripts get an exit code, and people one line."""
    shell.server.script(refuse(401, body=f'{{"error": {{"message": "bad key {KEY}"}}}}'))

    ended = await shell.run(*shell.new("Find the answer."))

    assert (ended.exit_code, ended.out) == (5, "")
    assert "check the API key" in ended.err
    assert "continue with: ctxmgr run --session run-" in ended.err
    assert KEY not in ended.err


@on_sqlite
async def test_retries_are_reported(shell: Shell) -> None:
    """Users see why they wait; programs learn that the usage is incomplete."""
    cut = breaks(DONE, after=4, then="cut")
    shell.server.script(refuse(429, "Retry-After: 0"), cut, DONE)

    ended = await shell.run(*shell.new("Find the answer."), "--output-tokens-max", "77")

    assert (ended.exit_code, ended.result["lost_answers"]) == (0, 1)
    assert "answered 429: not now; trying again in 0 s" in ended.err
    assert shell.server.requests[0].body["max_tokens"] == 77


@on_sqlite
async def test_a_connection_that_always_breaks_ends_the_run(shell: Shell) -> None:
    """The user sees the attempts, and that nothing was stored."""
    shell.server.script(*[breaks(DONE, after=4, then="cut")] * ANSWERS_MAX)

    ended = await shell.run(*shell.new("Find the answer."))

    assert ended.exit_code == 6
    assert ended.err.count("asking again") == ANSWERS_MAX - 1
    assert '"code": "answer_lost"' in ended.err


async def _stored(shell: Shell, object_id: str) -> dict[str, object]:
    async with await open_store(shell.store_url) as store:
        version = await store.get(object_id)
        assert version is not None
        return version.document


def test_the_help_states_the_limit_of_turns() -> None:
    """The number in the help must be the one in the loop."""
    text = (ROOT / "tests" / "surfaces" / "terminal" / "help" / "run.txt").read_text(
        encoding="utf-8"
    )

    assert f"default: {TURNS_MAX}." in text


async def test_text_hidden_by_the_economy_policy_can_be_recalled(shell: Shell) -> None:
    """A long output is folded, and the model can search all of it; a session keeps its policy.

    003-A39: recall is a tool of the policy.
    """
    count = Call("bash", {"command": "seq -f 'the count is at %g now' 4000"})
    recall = Call("recall", {"query": "count 2345"})
    shell.server.script(says(count), says(recall), DONE, DONE)

    ended = await shell.run(*shell.new("Count."), "--policy", "economy")
    (index,) = shell.home.parent.rglob("*.search")
    made = index.stat().st_ino
    await shell.run("Well?", "--session", ended.result["session"])

    asked = [request.text for request in shell.server.requests]
    assert ended.result["outcome"] == "done"
    assert index.stat().st_ino == made, "the index stays beside the store"
    assert ["the count is at 2345 now" in request for request in asked[:3]] == [False, False, True]
    assert "tok" in asked[1]
    assert all("recall(query)" in request for request in asked)
    assert [row["pool"] for row in ended.result["turns"]] == [0, 0, 0]
