"""What happens in a store becomes experience, once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from ctxmgr import connect
from ctxmgr.core.events.events import Event, Listener
from ctxmgr.core.events.listeners import ListenerFeed
from ctxmgr.core.events.origins import StoreEvents
from ctxmgr.core.model import TextDelta
from ctxmgr.errors import Denied, Unavailable
from ctxmgr.experience.hooks import WorkspaceHooks
from ctxmgr.experience.lenses.lens import Moment
from ctxmgr.experience.records.timestep import TimestepRecord
from ctxmgr.experience.xdb import XDB
from ctxmgr.harness.loop_events import AnswerRestarted, TurnStarted
from ctxmgr.harness.stream_recorder import StreamRecorder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "xdb"


async def one_turn(store: Path, root: Path | None, *, session: str = "s1") -> None:
    async with connect(store, experience=root, tracking=False) as client:
        live = await client.start(session, system_prompt="Be brief.")
        await live.record("call-1", tool="bash", args={"command": "ls"}, output="a.py")
        await live.end_turn("One file.", user="What is here?")


async def recalled(root: Path, session: str = "s1") -> list[TimestepRecord]:
    async with XDB(root, "be-1", create=False) as xdb:
        return await xdb.recall(session_id=session, limit=1_000)


def shown(records: list[TimestepRecord]) -> list[tuple[str, str | None, str]]:
    return [(str(record.event_type), record.role, record.content) for record in records]


TURN = [
    ("system", "system", "Be brief."),
    ("tool_call", "assistant", '{"tool":"bash","args":{"command":"ls"}}'),
    ("tool_response", "tool", "a.py"),
    ("input", "user", "What is here?"),
    ("output", "assistant", "One file."),
]


async def test_turns_and_tool_calls_are_recorded(root: Path, tmp_path: Path) -> None:
    """000-R002, X-C07: everybody gets a log of events, without any lens."""
    await one_turn(tmp_path / "agent.db", root)

    records = await recalled(root)

    assert [each for each in shown(records) if each[0] != "system" or each[1]] == TURN
    call, response = (each for each in records if each.event_type.startswith("tool"))
    assert call.event_id == response.event_id == "call-1"
    assert (call.event_start, call.event_end) == (True, False)
    assert (response.event_start, response.event_end) == (False, True)


async def test_events_before_the_listener_are_recorded_once(root: Path, tmp_path: Path) -> None:
    """A log that is added later, and a client that is opened again, miss and repeat nothing."""
    store = tmp_path / "agent.db"
    await one_turn(store, None)
    for _ in range(2):
        async with connect(store, experience=root, tracking=False):
            pass

    assert [each for each in shown(await recalled(root)) if each in TURN] == TURN


class _FailsOnce:
    """A listener that handles an event, and then fails as if the process had been killed."""

    name = "fails"

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.last_handled = listener.last_handled
        self.failed = set[Event]()

    async def handle(self, event: Event) -> None:
        await self._listener.handle(event)
        if event.id not in self.failed:
            self.failed.add(event.id)  # type: ignore[arg-type]
            raise Unavailable("killed")


async def test_an_event_that_is_delivered_again_is_not_recorded_again(
    root: Path, tmp_path: Path
) -> None:
    """Delivery is at least once; steps and position are stored in one transaction."""
    store = tmp_path / "agent.db"
    await one_turn(store, None)
    async with (
        connect(store, tracking=False) as client,
        XDB(root, "be-1") as xdb,
    ):
        listener = _FailsOnce(xdb.listener(StoreEvents(client.store)))
        async with ListenerFeed(client.store, listeners=(listener,)) as feed:
            for _ in range(40):
                await feed.committed()
                await asyncio.wait_for(feed.heard(), 60)

    assert [each for each in shown(await recalled(root)) if each in TURN] == TURN


async def test_two_processes_on_one_store_record_an_event_once(root: Path, tmp_path: Path) -> None:
    """Each client has its own listener, and both receive every event."""
    store = tmp_path / "agent.db"
    async with connect(store, experience=root, tracking=False) as idle:
        await one_turn(store, root)
        await idle.start("s2", system_prompt="x")

    assert [each for each in shown(await recalled(root)) if each in TURN] == TURN


async def test_what_was_streamed_is_not_recorded_again(root: Path, tmp_path: Path) -> None:
    """X-C07, 000-R175, 000-R218: token by token while it streams, and then not once more."""
    async with (
        XDB(root, "be-1") as xdb,
        connect(tmp_path / "agent.db", experience=xdb, tracking=False) as client,
    ):
        live = await client.start("s1", system_prompt="Be brief.")
        await xdb.start_session("s1")
        recorder = StreamRecorder(WorkspaceHooks(xdb))
        recorder.on_event(TurnStarted(turn=1, user="What is here?"))
        recorder.on_event(TextDelta(text="Two"))
        recorder.on_event(AnswerRestarted(reason="lost"))
        for piece in ("One", " file", "."):
            recorder.on_event(TextDelta(text=piece))
        await live.record("call-1", tool="bash", args={"command": "ls"}, output="a.py")
        await live.end_turn("One file.", user="What is here?")

    records = [each for each in await recalled(root) if each.role not in {None, "system"}]

    assert shown(records) == [
        ("input", "user", "What is here?"),
        *(("output", "assistant", piece) for piece in ("Two", "One", " file", ".")),
        TURN[1],
        TURN[2],
    ]
    assert [each.event_start for each in records[1:5]] == [True, True, False, False]
    assert [each.event_end for each in records[1:5]] == [False, False, False, True]


async def test_a_second_process_sees_tokens_while_they_stream(root: Path) -> None:
    """A person can watch an answer in SQL before it ends."""
    async with XDB(root, "be-1") as xdb, XDB(root, "be-1") as other:
        await xdb.start_session("s1")
        hooks = WorkspaceHooks(xdb)
        for number in range(10):
            hooks.on_output_token(f"t{number}", token_id=number, turn=1)
        async with asyncio.timeout(60):
            while len(await other.recall(session_id="s1")) < 9:
                pass

        assert [each.token_id for each in await other.recall(session_id="s1")] == list(range(9))


async def test_inputs_are_recorded_with_their_role(root: Path) -> None:
    """000-R176: whoever said it."""
    async with XDB(root, "be-1") as xdb:
        await xdb.start_session("s1")
        WorkspaceHooks(xdb).on_input("Do not delete files", role="system")
        await xdb.flush()

        (record,) = await xdb.recall()
        assert (record.event_type, record.role) == ("input", "system")


def test_hooks_do_nothing_without_an_xdb() -> None:
    """000-R177: a harness can call them always."""
    hooks = WorkspaceHooks()

    hooks.on_input("hello")
    hooks.on_output_token("x", token_id=1)
    hooks.on_restart()


async def test_an_agent_cannot_read_its_own_experience_folder(tmp_path: Path) -> None:
    """X-C14, design D10: the agent sees tools, never the files of a store."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    root = workspace / "xdb"
    async with connect(
        tmp_path / "agent.db", experience=root, tracking=False, directory=str(workspace)
    ) as client:
        live = await client.start("s1", system_prompt="x")
        await live.record("c1", tool="bash", args={"command": "ls"}, output="a.py")
        (workspace / "a.py").write_text("x = 1", encoding="utf-8")
        seen = await live.read("a.py")
        with pytest.raises(Denied):
            await live.read("xdb/experience/log.sqlite")

        assert seen is not None


class _FailingLens:
    name = "failing"

    def __init__(self) -> None:
        self.works = False

    def score(self, moment: Moment) -> Mapping[str, float]:
        if not self.works:
            raise RuntimeError("no weights")
        return {"c": 0.5}


async def test_a_lens_that_fails_does_not_stop_the_log(root: Path, tmp_path: Path) -> None:
    """000-R002, 000-R029: what happened is recorded without its scores, and what follows too."""
    lens = _FailingLens()
    async with (
        XDB(root, "be-1", lenses=[lens]) as xdb,
        connect(tmp_path / "agent.db", experience=xdb, tracking=False) as client,
    ):
        live = await client.start("s1", system_prompt="Be brief.")
        await xdb.start_session("s1")
        WorkspaceHooks(xdb).on_input("What is here?", turn=1)
        WorkspaceHooks(xdb).on_output_token("One file.", turn=1)
        await live.end_turn("One file.", user="What is here?")
        await client.heard()
        assert xdb.failing_lenses == {"failing": "RuntimeError: no weights"}
        lens.works = True
        await live.end_turn("Two files.", user="And now?")
        await client.heard()
        assert xdb.failing_lenses == {}

    records = await recalled(root)
    said = [each for each in records if each.role in {"user", "assistant"}]
    assert [(each.content, dict(each.concept_activations)) for each in said] == [
        *(("What is here?", {}), ("One file.", {})),
        *(("And now?", {"c": 0.5}), ("Two files.", {"c": 0.5})),
    ]


async def test_a_lens_that_was_not_asked_does_not_work_again(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The beginning of a word has no reading of its own, nor has one whose lenses had failed."""
    lens = _FailingLens()
    async with XDB(root, "be-1", lenses=[lens]) as xdb:
        await xdb.start_session("s1")
        for event in ("e1", "e2"):
            for token in ("Hel", "lo.", "Hel"):
                xdb.token_activations(token, event_id=event)
        assert list(xdb.failing_lenses) == ["failing"]
        lens.works = True
        xdb.activations("Hello.")
        xdb.token_activations("lo", event_id="e2")
        assert xdb.failing_lenses == {}

    said = [record.message for record in caplog.records if "the lens" in record.message]
    assert [" ".join(message.split()[:4]) for message in said] == [
        "the lens failing fails,",
        "the lens failing works",
    ]
