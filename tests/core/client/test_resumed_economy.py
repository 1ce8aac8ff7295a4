"""Sessions under the economy policy that are resumed: they continue as if never interrupted."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import pytest

import ctxmgr
from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_economy import LiveEconomy
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.economy.folding import FoldableText
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.economy.records import EconomyRecord
from ctxmgr.core.economy.stream_state import StreamState
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.objects.chat import AssistantMeta
from ctxmgr.core.store.contract import Put
from ctxmgr.errors import Corrupt
from tests.core.builders.clients import with_clock
from tests.core.builders.streams import long_output

FILES: Final = {
    f"/src/part{at}.py": "".join(
        f"def function_{at}_{row}(argument):\n    return other_{row % 7} + argument\n"
        for row in range(30 + 40 * at)
    )
    for at in range(4)
}


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(tmp_path: Path, clock: Clock) -> AsyncIterator[Client]:
    """The client that is never interrupted."""
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, tracking=False, directory=str(tmp_path)) as client:
        yield with_clock(client, clock)


async def work(session: LiveSession, dice: Random) -> None:
    """Answer the current prompt: read a file, run something, or only talk."""
    n = session.turn
    parts = [text_part(f"I look at function_{dice.randrange(4)}_{n}.")]
    for at in range(dice.randrange(3)):
        path = dice.choice(list(FILES))
        if dice.random() < 0.5:
            tool, args, output = "read", {"path": path}, FILES[path]
        else:
            tool, args = "bash", {"command": f"make target_{n} # " + "with a long remark " * 5}
            output = long_output(f"run{n}", lines=dice.choice((0, 1, 40, 120)))
        call = f"call-{n}-{at}"
        await session.record(call, tool=tool, args=args, output=output, discover=False)
        parts.append(toolcall_part(call, call_id=call, tool=tool, args=args))
    usage = {"input_tokens": 1_500 + 50 * n} if dice.random() < 0.7 else None
    await session.end_turn(parts, meta=AssistantMeta(usage=usage))


@pytest.mark.parametrize("seed", range(8))
async def test_a_resumed_session_renders_what_it_would_have_rendered(
    client: Client, clock: Clock, seed: int
) -> None:
    """003-R115: another process, or another machine, continues in the middle of the work.

    Whatever differs is written again to the provider's cache, and paid again.
    """
    dice = Random(seed)
    policy = Economy(
        window_tokens=dice.choice((7_000, 24_000, 200_000)), model=dice.choice((None, "gpt-4o"))
    )
    session = await client.start("s1", system_prompt="Be careful.")
    compared = 0
    for _ in range(40):
        clock.now += dice.choice((5, 30, 30, 400))
        user = f"question {session.turn}" if dice.random() < 0.5 else ""
        prompt = await session.render(user, policy=policy)
        if session.turn > 1 and dice.random() < 0.4:
            other = with_clock(client, clock)
            resumed = await other.resume("s1")
            assert await resumed.render(user, policy=policy) == prompt
            compared += 1
        await work(session, dice)
        called = [call for turn in session.chat.turns for call in turn.toolcall_ids]
        if called and dice.random() < 0.2:
            await session.deactivate(dice.choice(called))
    assert compared > 5


async def test_a_resumed_session_knows_which_files_the_agent_has_seen(
    client: Client, clock: Clock, tmp_path: Path
) -> None:
    """003-R115: what a call has shown is not shown again, and what it hid is, in any process.

    The names of tools do not say it: a harness states what its own tools read and wrote, and one
    patch changes several files.
    """
    names = ("a.py", "b.py", "c.py")
    for name in names:
        (tmp_path / name).write_text(f"def first_{name[0]}(): ...\n" * 20)

    async def same_prompt() -> str:
        clock.now += 30
        prompt = await session.render("next", policy="economy")
        resumed = await with_clock(client, clock).resume("s1")
        assert await resumed.render("next", policy="economy") == prompt
        return str(prompt)

    async def called(call: str, *, tool: str, args: dict[str, str], **files: list[str]) -> None:
        await session.record(call, tool=tool, args=args, output="done\n", **files)  # type: ignore[arg-type]
        await session.end_turn([toolcall_part(call, call_id=call, tool=tool, args=args)])

    session = await client.start("s1", system_prompt="Be careful.")
    await session.render("go", policy="economy")
    await called("c1", tool="look", args={}, reads=list(names))
    assert "def first_" not in await same_prompt()

    (tmp_path / "a.py").write_text("def second_a(): ...\n" * 20)
    await called("c2", tool="edit", args={"path": "a.py"}, writes=["a.py"])
    assert "def second_a" in await same_prompt()

    for name in ("b.py", "c.py"):
        (tmp_path / name).write_text(f"def third_{name[0]}(): ...\n" * 20)
    patch = "*** Begin Patch\n*** Update File: b.py\n*** Update File: c.py\n*** End Patch\n"
    await called("c3", tool="apply_patch", args={"input": patch})
    assert "def third_" not in await same_prompt()


async def test_a_resumed_session_shows_what_was_asked_back(client: Client, clock: Clock) -> None:
    """003-R115: a harness that activates an object itself leaves no trace of it in the chat."""
    session = await client.start("s1", system_prompt="Be careful.")
    await session.render("go", policy="economy")
    await session.record("c1", tool="bash", args={}, output=long_output("run", lines=200))
    await session.end_turn([toolcall_part("c1", call_id="c1", tool="bash", args={})])
    await session.deactivate("c1")
    await session.render("go on", policy="economy")
    await session.activate("c1")
    await session.end_turn("done")

    prompt = await session.render("next", policy="economy")
    resumed = await with_clock(client, clock).resume("s1")

    assert prompt.count(long_output("run", lines=200)) == 1
    assert await resumed.render("next", policy="economy") == prompt


async def test_a_resume_does_not_analyse_what_is_settled(
    client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two thousand turns must not be built again before the first prompt."""
    session = await client.start("s1", system_prompt="Be careful.")
    for n in range(30):
        clock.now += 30
        await session.render("", policy="economy")
        args = {"command": f"make {n}"}
        output = long_output(f"run{n}", lines=100)
        await session.record(f"c{n}", tool="bash", args=args, output=output)
        await session.end_turn([toolcall_part(f"c{n}", call_id=f"c{n}", tool="bash", args=args)])
    analysed: list[str] = []
    of = FoldableText.of

    def counted(content: str, **kwargs: object) -> FoldableText:
        analysed.append(content)
        return of(content, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(FoldableText, "of", counted)
    resumed = await with_clock(client, clock).resume("s1")
    await resumed.render("", policy="economy")

    assert 0 < len(set(analysed)) < 15


async def test_a_resume_within_the_time_to_live_begins_no_epoch(
    client: Client, clock: Clock
) -> None:
    """What the provider still has cached is read from there, whichever process asks."""
    session = await client.start("s1", system_prompt="Be careful.")
    await session.render("first", policy="economy")
    await session.end_turn("done")

    for pause, epoch in ((10, 1), (400, 2)):
        clock.now += pause
        resumed = await with_clock(client, clock).resume("s1")
        economy = await LiveEconomy.open(resumed.state, Economy())
        _, record = await economy.prompt("next", Economy(), contributions=())
        assert record.epoch == epoch


async def test_a_record_of_an_earlier_version_still_continues(
    client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions of version 0.1 have no state of the stream, and are built from the first turn."""
    without = EconomyRecord.to_value

    def earlier(record: EconomyRecord, before: EconomyRecord | None = None) -> dict[str, object]:
        value = without(record, before)
        del value["stream"]
        return value

    monkeypatch.setattr(EconomyRecord, "to_value", earlier)
    session = await client.start("s1", system_prompt="Be careful.")
    for _ in range(8):
        await session.render("go", policy="economy")
        await work(session, Random(1))

    resumed = await with_clock(client, clock).resume("s1")
    text = await resumed.render("next", policy="economy")

    assert text.count("user: go") == 8
    assert "toolcall #1 tool=read" in text


@pytest.mark.parametrize(
    "change",
    [
        {"message_tokens": [[0, ["many"]]]},
        {"message_tokens": [[0, [1, 2, 3, 4, 5, 6, 7]]]},
        {"used": {"1.0": None}},
        {"used": {}},
        {"asked_back": {"unheard of": 1}},
        {"sent_at": "yesterday"},
        {"settled": None},
        {"touched": [["not", "an", "id"]]},
        {"requested": {}, "touched": None},
    ],
)
async def test_a_record_that_was_altered_is_corrupt(
    client: Client, clock: Clock, change: dict[str, object]
) -> None:
    """A store may be damaged, or come from someone else: it must not end a harness with a bug."""
    session = await client.start("s1", system_prompt="Be careful.")
    for n in range(2):
        await session.render("go", policy="economy")
        await session.record(f"c{n}", tool="bash", args={}, output=long_output("run", lines=9))
        await session.end_turn([toolcall_part(f"c{n}", call_id=f"c{n}", tool="bash", args={})])
    version = await client.store.get("turn:s1:2")
    assert version is not None
    policy = version.document["policy"]
    altered = {**policy, "stream": {**policy["stream"], **change}}
    await client.store.commit([Put({**version.document, "policy": altered})])

    resumed = await with_clock(client, clock).resume("s1")
    with pytest.raises(Corrupt):
        await resumed.render("next", policy="economy")


def test_the_state_of_a_stream_is_stored_in_differences() -> None:
    """A list of all messages in every record would take quadratic space."""
    states = [
        StreamState(
            sent_at=float(n),
            sent=n,
            counted=n,
            samples=((n, n),),
            broken=0,
            asked_back={"run": n},
            settled=tuple(f"{at}.0" for at in range(n)),
            used={f"{n}.0": n},
            newest=(),
            message_tokens=(*([n] * 2), *range(2, 3 * n)),
        )
        for n in range(1, 5)
    ]

    values = [
        state.to_value(before) for before, state in zip([None, *states], states, strict=False)
    ]

    assert values[2]["settled"] == ["2.0"]
    assert values[2]["message_tokens"] == [[0, [3, 3]], [6, [6, 7, 8]]]
    for number in range(1, 5):
        assert StreamState.joined(values[:number]) == states[number - 1]


def test_a_difference_that_is_known_is_the_one_that_would_be_found() -> None:
    """Comparing every text and message with the record before would take longer every turn."""
    before = _counted(used={"1.0": 1, "2.0": 2}, tokens=(5, 6, 7, 8), marked=2, recounted=4)
    keys, messages = before.marked.add(["1.0", "3.0", "4.0"]), before.recounted.add([1, 2, 4, 5])
    now = _counted(used={"1.0": 3, "2.0": 2, "3.0": 3}, tokens=(5, 9, 7, 8, 1, 2))
    known = replace(now, marked=keys, recounted=messages)

    value = known.to_value(before)

    assert value == now.to_value(before)
    assert value["used"] == {"1.0": 3, "3.0": 3}, "a text that settled since has none"
    assert value["message_tokens"] == [[1, [9]], [4, [1, 2]]]
    assert StreamState.joined([before.to_value(), value]) == now


def _counted(
    *, used: dict[str, int], tokens: tuple[int, ...], marked: int = 0, recounted: int = 0
) -> StreamState:
    return StreamState(
        sent_at=0.0,
        sent=0,
        counted=0,
        samples=(),
        broken=0,
        asked_back={},
        settled=(),
        used=used,
        newest=(),
        message_tokens=tokens,
        marked=AppendOnly(list(used)[:marked]),
        recounted=AppendOnly(range(recounted)),
    )
