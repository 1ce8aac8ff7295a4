"""Old turns of a session are shown as a summary when its window is full."""

import re
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.bench.economy.references import dangling
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.flushes import FlushRequest
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.events.events import Compacted, Event, EventId
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.objects.compaction import CompactionRecord, CompactionTrigger, compaction_id
from ctxmgr.core.sessions.storage import compaction_ids
from ctxmgr.errors import Corrupt, Incorrect
from tests.core.builders.clients import with_forms
from tests.core.builders.streams import long_output

POLICY = Economy(window_tokens=4_000)
TURNS = 30
"""Enough for some compactions."""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, tracking=False, policy=POLICY) as client:
        yield client


async def turn(session: LiveSession, *, lines: int = 30, **answer: Any) -> str:
    """Run one turn with one call; return its prompt."""
    n = session.turn
    prompt = await session.render(f"Please do step_number_{n}." if n % 5 == 1 else "")
    args = {"command": f"make target_{n}"}
    call = f"{session.session_id}-{n}"
    await session.record(call, tool="bash", args=args, output=long_output(f"run{n}", lines=lines))
    said = text_part(f"I'll keep decision_{n} because it works.")
    await session.end_turn([said, toolcall_part(call, call_id=call, tool="bash", args=args)])
    return str(prompt)


async def compacted(session: LiveSession, *, turns: int = TURNS) -> list[str]:
    return [await turn(session) for _ in range(turns)]


async def records(client: Client, session_id: str) -> list[CompactionRecord]:
    ids = await compaction_ids(client.store, session_id)
    found = await client.store.get_many(ids)
    read = [CompactionRecord.from_document(version.document) for version in found.values()]
    return sorted(read, key=lambda record: record.range_start)


async def test_a_full_window_is_compacted_and_every_prompt_is_proven(client: Client) -> None:
    """000-R005, D4: a summary replaces old turns, and each prompt is rebuilt from its record."""
    session = await client.start("s1", system_prompt="Be careful.")

    prompts = await compacted(session)

    stored = await records(client, "s1")
    assert len(stored) >= 2
    assert stored[0].range_start == 1
    for before, after in pairwise(stored):
        assert after.range_start == before.range_end + 1  # 000-A16
    for record in stored:
        assert record.trigger is CompactionTrigger.CONTEXT_FULL
        assert record.tokens_after < record.tokens_before
        assert record.timesteps_compacted == record.range_end - record.range_start + 1
    assert prompts[-1].count("are summarised here") == 1
    assert stored[-1].summary in prompts[-1]
    for number, prompt in enumerate(prompts, start=1):
        assert (await client.prompt_as_of("s1", turn=number)).text() == prompt


async def test_a_summary_keeps_instructions_decisions_and_names(client: Client) -> None:
    """000-R146: what the user said stays verbatim, and what was decided and seen is named."""
    session = await client.start("s1", system_prompt="Be careful.")

    prompt = (await compacted(session))[-1]

    summary = prompt.partition("are summarised here")[2]
    assert "(turn 1) Please do step_number_1." in summary
    assert "because it works." in summary
    assert "value_run" in summary


async def test_the_cached_prefix_breaks_once_per_compaction(client: Client) -> None:
    """A break is paid by writing the whole prompt again."""
    session = await client.start("s1", system_prompt="Be careful.")

    prompts = [await turn(session, lines=4) for _ in range(60)]

    breaks = sum(before[:200] != after[:200] for before, after in pairwise(prompts[1:]))
    assert breaks == len(await records(client, "s1"))


async def test_what_was_compacted_can_be_shown_again(client: Client) -> None:
    """003-R066: nothing is lost; a handle from the summary or an id brings the object back."""
    session = await client.start("s1", system_prompt="Be careful.")
    await compacted(session)
    output = long_output("run2", lines=30)
    assert output not in await session.render("")

    await session.activate("s1-2")
    prompt = await session.render("")
    await session.end_turn("ok")

    assert output in prompt
    assert '[#2 bash ok {"command":"make target_2"}: again, in full]' in prompt
    assert (await client.prompt_as_of("s1", turn=TURNS + 1)).text() == prompt


async def test_a_pinned_object_is_shown_again_when_its_turn_is_compacted(client: Client) -> None:
    """A pin is exempt from being shortened, also by a summary."""
    session = await client.start("s1", system_prompt="Be careful.")
    await turn(session)
    await session.pin("s1-1")

    prompts = await compacted(session)

    output = long_output("run1", lines=30)
    assert all(output in prompt for prompt in prompts)
    assert (await client.prompt_as_of("s1", turn=TURNS + 1)).text() == prompts[-1]


async def test_references_resolve_after_a_compaction(client: Client) -> None:
    """D6: lines that a later text shows by reference to a compacted one are shown themselves."""
    session = await client.start("s1", system_prompt="Be careful.")
    text = "".join(f"def function_{n}(argument): return value_{n}\n" for n in range(20))
    for n in range(1, 40):
        await session.render("")
        args = {"command": "cat parser_module.py"}
        await session.record(f"c{n}", tool="bash", args=args, output=text + f"line_of_{n}\n" * 8)
        await session.end_turn([toolcall_part(f"c{n}", call_id=f"c{n}", tool="bash", args=args)])
        assert session._economy is not None
        assert dangling(session._economy._stream) == []
    assert await records(client, "s1")


async def test_a_requested_compaction_is_stored_and_shown_next(client: Client) -> None:
    """000-R172, 000-A17: on demand, with the trigger ``manual``, and also after a resume."""
    session = await client.start("s1", system_prompt="Be careful.")
    prompts = [await turn(session, lines=3) for _ in range(8)]

    record = await session.compact()

    assert record is not None
    assert record.trigger is CompactionTrigger.MANUAL
    assert (record.range_start, record.timesteps_compacted) == (1, record.range_end)
    assert [record] == await records(client, "s1")
    resumed = await with_forms(client, {}).resume("s1")
    assert record.summary in await resumed.render("next")
    shown = await session.render("next")
    assert record.summary in shown
    await session.end_turn("done")
    assert "are summarised here" not in prompts[-1]
    assert (await client.prompt_as_of("s1", turn=9)).text() == shown


async def test_the_last_of_several_requested_compactions_is_shown(client: Client) -> None:
    """000-R172: each has its number, also if no turn came between them."""
    session = await client.start("s1", system_prompt="Be careful.")
    for _ in range(8):
        await turn(session, lines=3)
    await client.pause("s1")

    for _ in range(2):
        visited = await client.visit("s1")
        record = await visited.compact()

    assert record is not None
    assert [found.id for found in await records(client, "s1")] == [
        compaction_id("s1", number=1),
        compaction_id("s1", number=2),
    ]
    assert record.summary in await (await client.resume("s1")).render("")


async def test_too_short_a_session_is_not_compacted(client: Client) -> None:
    """000-R172: None is returned if there is nothing to compact."""
    session = await client.start("s1", system_prompt="Be careful.")
    assert await session.compact() is None
    await turn(session)
    assert await session.compact() is None


async def test_the_plain_layout_cannot_be_compacted(client: Client) -> None:
    """Its chat section shows every turn, byte for byte; the error says what to do."""
    session = await client.start("s1", system_prompt="Be careful.", policy="plain")

    with pytest.raises(Incorrect, match="change_policy"):
        await session.compact()


async def test_a_fork_continues_the_prompt_of_its_parent(client: Client) -> None:
    """D4: its handles, its summary and the provider's cached prefix are the parent's."""
    session = await client.start("s1", system_prompt="Be careful.")
    await compacted(session)
    fork = await client.fork("s1", turn=TURNS, new_session_id="s2")

    forked = await fork.render("next")

    assert forked == await session.render("next")
    await fork.end_turn("ok")
    for _ in range(TURNS):
        await turn(fork)
    own = await records(client, "s2")
    assert own[0].range_start == (await records(client, "s1"))[-1].range_end + 1
    assert (await client.prompt_as_of("s2", turn=TURNS + 1)).text() == forked


async def failing_call(session: LiveSession, call: str) -> None:
    await session.render("Please try it.")
    args = {"command": "make fails"}
    output = "exit code 2\nError: no such target\n"
    await session.record(call, tool="bash", args=args, output=output, status="fail")
    await session.end_turn([toolcall_part(call, call_id=call, tool="bash", args=args)])


async def test_handles_of_a_summary_name_the_same_objects_after_a_plain_turn(
    client: Client, tmp_path: Path
) -> None:
    """D6: the stream begins anew then, and numbers its objects otherwise."""
    (tmp_path / "a.txt").write_text("alpha\n", encoding="utf-8")
    session = await client.start("s1", system_prompt="Be careful.")
    await session.read(str(tmp_path / "a.txt"))  # has the first handle
    await failing_call(session, "fails")
    for _ in range(8):
        await turn(session, lines=3)
    record = await session.compact()
    assert record is not None
    assert "#2 bash" in record.summary
    await turn(session, lines=3)
    await session.change_policy("plain")
    await turn(session, lines=3)
    await client.pause("s1")

    resumed = await client.resume("s1", policy=POLICY)
    prompt = await resumed.render("next")
    await resumed.end_turn("ok")

    failed = re.search(r"Failures:\n(#\d+) bash", prompt)
    assert failed is not None
    assert (await resumed.call_with_handle(failed[1])).object_id == "fails"
    stored = await records(client, "s1")
    assert {item.id for item in stored} == {compaction_id("s1", number=n) for n in (1, 2)}
    await client.pause("s1")
    again = await client.resume("s1")
    assert "are summarised here" in await again.render("next")


async def read_by_tool(session: LiveSession, path: Path, text: str) -> None:
    """Let the agent read a file with its own tool."""
    await session.render("Please read it.")
    args = {"file_path": str(path)}
    await session.record("read-1", tool="Read", args=args, output=text)
    await session.end_turn([toolcall_part("read-1", call_id="read-1", tool="Read", args=args)])


@pytest.mark.parametrize("how", ["pin", "activate"])
async def test_a_file_that_a_call_has_shown_is_shown_again(
    client: Client, tmp_path: Path, how: str
) -> None:
    """003-R066: its text was in the output of a call, which the summary hides."""
    path = tmp_path / "notes.txt"
    text = "".join(f"note_{n} is kept here\n" for n in range(20))
    path.write_text(text, encoding="utf-8")
    session = await client.start("s1", system_prompt="Be careful.")
    await read_by_tool(session, path, text)
    if how == "pin":
        await session.pin(str(path))

    prompts = await compacted(session)
    if how == "activate":
        assert text not in prompts[-1]
        await session.activate(str(path))
        prompts.append(await turn(session))

    assert text in prompts[-1]
    if how == "pin":
        assert all(text in prompt for prompt in prompts)
    last = session.chat.turn_count
    assert (await client.prompt_as_of("s1", turn=last)).text() == prompts[-1]


async def test_what_is_requested_is_shown_by_the_prompt_that_compacts(client: Client) -> None:
    """003-R066: it stood in an old turn when it was requested, which this prompt shortens."""
    session = await client.start("s1", system_prompt="Be careful.")
    await turn(session)

    for _ in range(TURNS):
        await session.activate("s1-1")
        assert long_output("run1", lines=30) in await turn(session)

    assert await records(client, "s1")


async def test_a_fork_and_a_bundle_carry_compactions(client: Client, tmp_path: Path) -> None:
    """D4: another session, and another store, render and prove them."""
    session = await client.start("s1", system_prompt="Be careful.")
    prompts = await compacted(session)
    fork = await client.fork("s1", turn=TURNS, new_session_id="s2")

    forked = await fork.render("")
    await fork.end_turn("ok")

    assert "are summarised here" in forked
    assert (await client.prompt_as_of("s2", turn=TURNS + 1)).text() == forked
    assert (await client.prompt_as_of("s2", turn=TURNS)).text() == prompts[-1]
    bundle = tmp_path / "s1.bundle"
    await client.export_session("s1", path=bundle)
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/other.db", tracking=False) as other:
        await other.import_session(bundle)
        assert await records(other, "s1") == await records(client, "s1")
        assert (await other.prompt_as_of("s1", turn=TURNS)).text() == prompts[-1]
        resumed = await other.resume("s1")
        assert await resumed.render("") == await session.render("")


class Saves:
    """Remembers what it was asked to save."""

    name = "saves"

    def __init__(self) -> None:
        self.requests: list[FlushRequest] = []

    async def flush(self, request: FlushRequest) -> None:
        self.requests.append(request)


class Fails(Saves):
    async def flush(self, request: FlushRequest) -> None:
        raise Corrupt("no")


async def test_layers_save_once_before_each_compaction(tmp_path: Path) -> None:
    """X-C06: one flush per cycle, with the turns that leave; a failing layer changes nothing."""
    saves = Saves()
    async with ctxmgr.connect(
        f"sqlite:///{tmp_path}/s.db", tracking=False, policy=POLICY, flushers=[saves, Fails()]
    ) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        await compacted(session)
        stored = await records(client, "s1")

    asked = [(request.first, request.last) for request in saves.requests]
    assert asked == [(record.range_start, record.range_end) for record in stored]
    assert "step_number_1" in saves.requests[0].text


class Hears:
    name = "hears"

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def last_handled(self) -> EventId | None:
        return self.events[-1].id if self.events else None

    async def handle(self, event: Event) -> None:
        self.events.append(event)


async def test_listeners_hear_of_compactions(tmp_path: Path) -> None:
    """Audit and experience are fed by the same events."""
    hears = Hears()
    async with ctxmgr.connect(
        f"sqlite:///{tmp_path}/s.db", tracking=False, policy=POLICY, listeners=[hears]
    ) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        await compacted(session)
        stored = await records(client, "s1")

    heard = [event for event in hears.events if isinstance(event, Compacted)]
    assert [(event.n, event.range_start, event.range_end) for event in heard] == [
        (n, record.range_start, record.range_end) for n, record in enumerate(stored, start=1)
    ]
    assert compaction_id("s1", number=1) == stored[0].id


async def test_a_summary_masks_what_earlier_turns_showed(tmp_path: Path) -> None:
    """Turns that were shown with their secrets keep them; what is made of them later does not."""
    token, url = "ghp_" + "a1B2c3D4e5F6" * 3, f"sqlite:///{tmp_path}/s.db"
    key = "-----BEGIN PRIVATE KEY-----\nMIIabcdefghijk0123\n-----END PRIVATE KEY-----\n"
    args = {"command": f"curl -H {token}"}
    async with ctxmgr.connect(
        url, tracking=False, policy=POLICY, secrets=ctxmgr.Secrets.SHOW
    ) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        await session.render(f"Use {token} because it works.")
        output = f"exit code 1\nError: {token} is wrong\n{key}"
        await session.record("c1", tool="bash", args=args, output=output)
        said = text_part(f"I'll use {token} because it works.")
        await session.end_turn([said, toolcall_part("c1", call_id="c1", tool="bash", args=args)])
        for _ in range(6):
            await turn(session, lines=3)
        await client.pause("s1")
    saves = Saves()
    async with ctxmgr.connect(url, tracking=False, policy=POLICY, flushers=[saves]) as client:
        resumed = await client.resume("s1")
        record = await resumed.compact()
        prompt = await resumed.render("next")

    assert record is not None
    for text in (record.summary, str(record.parts), saves.requests[0].text, prompt):
        assert "because it works" in text
        assert token not in text
        assert "MIIabcdefghijk0123" not in text


async def test_what_is_requested_is_shown_with_a_summary_from_before(client: Client) -> None:
    """003-R066: an object that the summary hides is shown, live and after a resume alike."""
    session = await client.start("s1", system_prompt="Be careful.")
    for _ in range(7):
        await turn(session, lines=10)
    assert await session.compact() is not None
    resumed = await client.visit("s1")

    for each in (session, resumed):
        await each.activate("s1-2")

    prompt = await resumed.render("next")
    assert "are summarised here" in prompt
    assert long_output("run2", lines=10) in prompt
    assert prompt == await session.render("next")


@pytest.mark.parametrize("words", [2_800, 3_280])
async def test_a_long_system_prompt_does_not_cause_a_compaction_at_every_turn(
    client: Client, words: int
) -> None:
    """X-C06: the shares of the window are those of what can be folded or compacted."""
    session = await client.start("s1", system_prompt="word " * words)

    for number in range(TURNS):
        await session.render(f"Go on with step {number}.")
        await session.end_turn([text_part(f"Step {number} is done, as the notes say.")])

    found = len(await records(client, "s1"))
    assert found <= TURNS / 4


@pytest.mark.parametrize("text", ["", "1\n"])
async def test_a_short_pinned_file_keeps_nothing_else_unfolded(
    client: Client, tmp_path: Path, text: str
) -> None:
    """Its text is in most outputs by chance; those are not what was pinned."""
    path = tmp_path / "__init__.py"
    path.write_text(text, encoding="utf-8")
    session = await client.start("s1", system_prompt="Be careful.")
    await session.read(str(path))
    await session.pin(str(path))

    prompts = await compacted(session)

    assert max(map(len, prompts)) < 5 * POLICY.window_tokens
    assert await records(client, "s1")


async def test_numbers_of_compactions_continue_after_a_plain_turn_of_a_fork(
    client: Client,
) -> None:
    """A fork begins after its parent's number; one that began at 1 again would meet its own."""
    session = await client.start("s1", system_prompt="Be careful.")
    await compacted(session)
    fork = await client.fork("s1", turn=TURNS, new_session_id="s2")
    await compacted(fork)
    await fork.render("plainly", policy="plain")
    await fork.end_turn("ok")
    await client.pause("s2")
    before = set(await compaction_ids(client.store, "s2"))

    again = await client.resume("s2")
    await compacted(again)

    assert before < set(await compaction_ids(client.store, "s2"))
    for number in range(TURNS + 1, again.chat.turn_count + 1):
        await client.prompt_as_of("s2", turn=number)
