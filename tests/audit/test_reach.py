"""What an agent can reach: not the audit log, by no attribute and on no mount."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import ctxmgr
from ctxmgr import Incorrect
from ctxmgr.audit.log import AuditLog
from ctxmgr.audit.records import AuditEntry
from ctxmgr.audit.steering import Directive, SteeringController
from ctxmgr.audit.writer import AuditLogWriter
from ctxmgr.core.client.client import Client
from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import EventOrigin
from ctxmgr.errors import Unavailable
from ctxmgr.experience.lenses.lens import Lenses, LensPolicy, Moment
from ctxmgr.experience.xdb import XDB
from tests.audit.logs import CREDENTIAL, created, opened


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    await created(tmp_path / "audit")
    return tmp_path / "audit"


def lines(root: Path) -> list[dict[str, Any]]:
    return [
        orjson.loads(line)
        for path in sorted(root.glob("segment-*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]


async def work(client: Client, name: str = "s1") -> None:
    session = await client.start(name, system_prompt="Be brief.")
    await session.record(f"{name}-1", tool="bash", args={"command": "ls"}, output="a.py\n")
    await session.end_turn([{"type": "text", "text": "There is a.py."}], user="list the files")
    await client.pause(name)


async def test_a_session_is_audited(root: Path, tmp_path: Path) -> None:
    """000-R101, 000-R106, 000-R178: what went in and out is recorded, in order."""
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/a.db", audit=root, tracking=False) as client:
        await work(client)

    recorded = [
        (line["session_id"], line["event_type"], line["raw_content"]) for line in lines(root)
    ]
    assert ("s1", "input", "list the files") in recorded
    assert ("s1", "tool_response", "a.py\n") in recorded
    outputs = [orjson.loads(text) for _, kind, text in recorded if kind == "output"]
    assert outputs[0]["assistant"] == [{"type": "text", "text": "There is a.py."}]
    calls = [orjson.loads(text) for _, kind, text in recorded if kind == "tool_call"]
    assert (calls[0]["tool"], calls[0]["args"]) == ("bash", {"command": "ls"})
    events = [orjson.loads(text)["event"] for _, kind, text in recorded if kind == "system"]
    assert {"session_started", "system_prompt_changed", "session_paused"} <= set(events)
    async with await opened(root) as log:
        assert (await log.verify()).faults == ()


async def test_every_event_is_recorded_once(root: Path, tmp_path: Path) -> None:
    """Events are delivered at least once: two clients of one store, and one that starts later."""
    url = f"sqlite:///{tmp_path}/a.db"
    async with (
        ctxmgr.connect(url, audit=root, tracking=False) as one,
        ctxmgr.connect(url, audit=root, tracking=False) as other,
    ):
        await asyncio.gather(work(one, "s1"), work(other, "s2"))
    async with ctxmgr.connect(url, tracking=False) as unaudited:
        await work(unaudited, "s3")
    async with ctxmgr.connect(url, audit=root, tracking=False):
        pass

    sources = [tuple(line["source"]) for line in lines(root)]
    assert sources == sorted(set(sources))
    inputs = [line["session_id"] for line in lines(root) if line["event_type"] == "input"]
    assert sorted(inputs) == ["s1", "s2", "s3"]


async def test_half_an_event_is_completed(root: Path, tmp_path: Path) -> None:
    """A crash between the two records of a tool call must not lose the second."""
    url = f"sqlite:///{tmp_path}/a.db"
    async with ctxmgr.connect(url, audit=root, tracking=False) as client:
        await work(client)
    recorded = lines(root)
    at = next(n for n, line in enumerate(recorded) if line["event_type"] == "tool_response")
    await _keep_only(root, at)

    async with ctxmgr.connect(url, audit=root, tracking=False):
        pass

    assert [line["source"] for line in lines(root)] == [line["source"] for line in recorded]


async def _keep_only(root: Path, count: int) -> None:
    """Make the log again with its first records only."""
    kept = lines(root)[:count]
    for path in root.iterdir():
        path.unlink()
    await created(root)
    async with await opened(root) as log:
        for values in kept:
            await log.append(
                AuditEntry(
                    session_id=values["session_id"],
                    tick=values["tick"],
                    event_type=EventType(values["event_type"]),
                    raw_content=values["raw_content"],
                    timestamp=values["timestamp"],
                    source=EventOrigin(*values["source"]),
                )
            )


async def test_a_restored_store_is_audited_from_its_beginning(root: Path, tmp_path: Path) -> None:
    """After a backup was restored, sequences mean other events than those that were recorded."""
    url, database = f"sqlite:///{tmp_path}/a.db", tmp_path / "a.db"
    async with ctxmgr.connect(url, audit=root, tracking=False) as client:
        await work(client, "s1")
    backup = database.read_bytes()
    async with ctxmgr.connect(url, audit=root, tracking=False) as client:
        await work(client, "s2")
    for path in tmp_path.glob("a.db*"):
        path.unlink()
    database.write_bytes(backup)
    await asyncio.sleep(0.01)  # the two histories have different times

    async with ctxmgr.connect(url, audit=root, tracking=False) as client:
        await work(client, "s3")

    inputs = [line["session_id"] for line in lines(root) if line["event_type"] == "input"]
    assert inputs[-1] == "s3"
    assert {"s1", "s2", "s3"} == set(inputs)


async def test_no_attribute_leads_to_the_log(root: Path, tmp_path: Path) -> None:
    """000-R100, 000-R174, X-C13: nothing that serves the agent holds the log or its writer."""
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/a.db", audit=root, tracking=False) as client:
        session = await client.start("s1", system_prompt="")
        tools = client.tools(session) if hasattr(client, "tools") else session

        found = {
            type(value).__qualname__
            for start in (client, session, tools)
            for value in reachable(start)
            if type(value).__module__.startswith("ctxmgr.audit")
        }

    assert found == set()


def test_the_walk_would_find_it() -> None:
    """A walk that finds nothing proves nothing."""

    class Holder:
        def __init__(self, writer: object) -> None:
            self.inner = {"deep": [lambda: writer]}

    writer = AuditLogWriter.__new__(AuditLogWriter)

    assert any(value is writer for value in reachable(Holder(writer)))


def reachable(start: object) -> Iterator[object]:
    """Every object to which attributes, items, closures and bound methods lead."""
    seen: set[int] = set()
    kept, pending = [], [start]
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, type | str | bytes | int | float):
            continue
        if inspect.ismodule(value):
            continue
        seen.add(id(value))
        kept.append(value)
        pending.extend(_parts(value))
    yield from kept


def _parts(value: Any) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    if inspect.isfunction(value):
        for cell in value.__closure__ or ():
            yield cell.cell_contents
    if inspect.ismethod(value):
        yield value.__self__
    if hasattr(value, "func") and hasattr(value, "args"):
        yield from (value.func, *value.args)
    yield from getattr(value, "__dict__", {}).values()
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(value, name):
                yield getattr(value, name)


@pytest.mark.parametrize("place", ["project/audit", "project/sub/audit", "link"])
async def test_a_log_that_the_agent_could_reach_is_refused(tmp_path: Path, place: str) -> None:
    """000-R210, 000-A06: a log inside a mount could be read and rewritten by the agent."""
    (tmp_path / "project" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "project" / "sub")
    await created(tmp_path / place / "log")
    mounts = [
        {
            "agentPrefix": "/workspace",
            "canonicalPrefix": str(tmp_path / "project"),
            "filesystemId": "h",
        }
    ]

    with pytest.raises(Incorrect, match="belongs to ctxmgr, and the agent could read and change"):
        async with ctxmgr.connect(
            "sqlite://:memory:", mounts=mounts, audit=tmp_path / place / "log", tracking=False
        ):
            pass


async def test_the_log_is_not_read_for_an_agent_on_the_host(tmp_path: Path, root: Path) -> None:
    """000-R100: without a sandbox the paths are the host's; its records enter no prompt."""
    async with ctxmgr.connect("sqlite://:memory:", audit=root, tracking=False) as client:
        session = await client.start("s1", system_prompt="")

        with pytest.raises((ctxmgr.Denied, ctxmgr.NotFound)):
            await session.read(str(root / "segment-00000001.jsonl"))


async def test_an_audit_that_fails_does_not_fail_the_turn(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A failing listener is reported; its events are recorded when it works again."""
    url, segment = f"sqlite:///{tmp_path}/a.db", root / "segment-00000001.jsonl"
    segment.chmod(0o644)
    async with ctxmgr.connect(url, audit=root, tracking=False) as client:
        await work(client)
    assert "listener audit failed" in caplog.text
    assert lines(root) == []

    segment.chmod(0o600)
    async with ctxmgr.connect(url, audit=root, tracking=False):
        pass

    assert "input" in {line["event_type"] for line in lines(root)}


def lens(text: str) -> dict[str, float]:
    return {"Deception": 0.9 if "trust me" in text else 0.1}


def hidden_lens(text: str) -> dict[str, float]:
    return {"hidden/Evaluation": len(text) / 100}


DIRECTIVE = Directive(
    concept_id="Deception",
    threshold=0.5,
    strength=-0.7,
    rationale="the contract forbids it",
    source="tribe",
)


async def test_every_evaluation_is_recorded_with_hidden_lenses(root: Path) -> None:
    """000-R178, 000-R101, 000-R218: all scores and the active directives, applied or not."""
    async with await opened(root) as log:
        controller = SteeringController(
            [lens, hidden_lens], directives=[DIRECTIVE], audit=log.writer
        )
        calm = await controller.evaluate_and_steer("hi", content="hi", session_id="s1", tick=1)
        steered = await controller.evaluate_and_steer(
            "trust me", content="trust me", session_id="s1", tick=2
        )
        first, second = await log.query(CREDENTIAL, event_types=["steering"])

    assert (calm, steered) == ((), (DIRECTIVE,))
    assert first.lens_activations == {"Deception": 0.1, "hidden/Evaluation": 0.02}
    assert list(first.steering_applied) == []
    assert second.raw_content == "trust me"
    assert second.steering_applied[0]["rationale"] == "the contract forbids it"


class _KeywordLens:
    """Scores two concepts, of which one is hidden from the agent."""

    name = "keywords"

    def score(self, moment: Moment) -> dict[str, float]:
        if "fail" in moment.text:
            raise ValueError("this lens fails")
        return {"open/Files": 0.5, "hidden/Deception": 0.9 if "here" in moment.text else 0.1}


async def test_hidden_scores_are_in_the_audit_log_alone(root: Path, tmp_path: Path) -> None:
    """000-R112, 000-R105, 000-A28: the same lenses and policy for both logs."""
    policy = LensPolicy(hidden=frozenset({"hidden/*"}))
    lenses = Lenses(lenses=(_KeywordLens(),), policy=policy)
    url = f"sqlite:///{tmp_path}/a.db"
    async with XDB(tmp_path / "xdb", "be", lenses=lenses.lenses, lens_policy=policy) as xdb:
        async with ctxmgr.connect(
            url, audit=root, audit_lenses=lenses, experience=xdb, tracking=False
        ) as client:
            session = await client.start("s1", system_prompt="Be brief.")
            await session.end_turn("One file.", user="What is here?")
        [seen] = await xdb.experience_log.query(session_id="s1", event_types=["input"])
    async with ctxmgr.connect(url, audit=root, audit_lenses=lenses, tracking=False) as client:
        session = await client.resume("s1")
        await session.end_turn("No.", user="Does it fail?")

    audited = {
        line["raw_content"]: line["lens_activations"]
        for line in lines(root)
        if line["event_type"] == "input"
    }
    assert dict(seen.concept_activations) == {"open/Files": 0.5}
    assert audited == {
        "What is here?": {"open/Files": 0.5, "hidden/Deception": 0.9},
        "Does it fail?": {},
    }
    async with await opened(root) as log:
        assert (await log.verify()).faults == ()


async def test_steering_without_an_audit_log_decides_the_same(root: Path) -> None:
    """000-R218: the audit log is optional, by injection."""
    controller = SteeringController([lens], directives=[DIRECTIVE])

    active = await controller.evaluate_and_steer(
        "trust me", content="trust me", session_id="s1", tick=1
    )

    assert active == (DIRECTIVE,)


async def test_steering_that_cannot_be_recorded_is_not_applied(root: Path) -> None:
    """000-R178: every evaluation is in the log, or the caller is told."""
    log = await AuditLog.open(root, be_id="be")
    controller = SteeringController([lens], directives=[DIRECTIVE], audit=log.writer)
    await log.close()

    with pytest.raises(Unavailable):
        await controller.evaluate_and_steer("x", content="x", session_id="s1", tick=1)
