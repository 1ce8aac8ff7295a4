"""Several turns of a harness: prompts, tool calls, files, collapse."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.store.contract import AsOf
from ctxmgr.errors import Conflict, Denied, Incorrect, NotContent, NotFound


def mount(project: Path) -> list[dict[str, Any]]:
    return [{"agentPrefix": "/workspace", "canonicalPrefix": str(project)}]


async def test_a_prompt_has_its_four_sections(store_url: str, sid: str, project: Path) -> None:
    """The model sees exactly these sections, in this order.

    Rows: 003-R001, 003-R126, 003-R149.
    """
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="Be careful.")
        await session.render("List it.")
        await session.record(f"{sid}-1", tool="ls", args={"path": "src"}, output="extra.py\n")
        await session.end_turn("Listed.")

        prompt = await session.render("And now?")

    stub = next(entry for entry in session.sets.metadata_pool if entry != f"{sid}-1")
    assert prompt == (
        "Be careful.\n\n"
        f"id={stub} type=file path=/workspace/src/extra.py file_type=py [unread]\n"
        f"id={sid}-1 type=toolcall tool=ls status=ok\n\n"
        f"user: List it.\nassistant: Listed.\ntoolcall_ref id={sid}-1 tool=ls status=ok\n"
        "user: And now?\n\n"
        f"ACTIVE_CONTENT id={sid}-1\nextra.py\n"
    )


async def test_a_tool_call_and_its_discoveries_are_one_transaction(
    store_url: str, sid: str, project: Path
) -> None:
    """A crash leaves all of a tool call or nothing.

    Rows: 003-R108, 003-R145, 003-R176, 003-R179, 003-R180, 003-R181.
    """
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        before = (await client.store.status()).sequence

        command = {"command": "find . -name '*.py'"}
        output = "./src/main.py\n./src/extra.py\n"
        await session.record(f"{sid}-1", tool="bash", args=command, output=output)

        (transaction,) = await client.store.feed(after=before)
    kinds = sorted(write.document["type"] for write in transaction.writes if write.document)
    assert kinds == ["file", "file", "session", "toolcall"]
    assert list(session.sets.active_set) == [f"{sid}-1"]
    assert len(session.sets.metadata_pool) == 3


async def test_a_read_is_indexed_from_the_file_itself(
    store_url: str, sid: str, project: Path
) -> None:
    """A harness may number or truncate lines; the object has the file's content.

    Rows: 003-R166, 003-R168, 003-R173, 003-A14.
    """
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        output = "1\tprint('one')"
        await session.record(
            f"{sid}-1", tool="Read", args={"file_path": "src/main.py"}, output=output
        )

        prompt = await session.render()

    assert "ACTIVE_CONTENT" in prompt
    assert "\nprint('one')\n" in prompt
    assert output in prompt


async def test_reading_a_missing_file_is_a_structured_failure(
    store_url: str, sid: str, project: Path
) -> None:
    """The agent gets the error, and nothing changes (PG-10, 003-R104)."""
    (project / "outside").symlink_to("/etc/passwd")
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")

        with pytest.raises(NotFound):
            await session.read("/workspace/missing.py")
        with pytest.raises(Denied):
            await session.read("/workspace/outside")

    assert list(session.sets.session_index) == []


async def test_a_stub_is_read_when_it_is_activated(store_url: str, sid: str, project: Path) -> None:
    """A discovered file is read only when it is needed (003-R101, 003-R102, 003-R103)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        await session.record(
            f"{sid}-1", tool="ls", args={"path": "src"}, output="main.py\nextra.py\n"
        )
        main, extra = list(session.sets.metadata_pool)[:2]
        (project / "src" / "extra.py").unlink()

        await session.activate(main)
        with pytest.raises(NotFound):
            await session.activate(extra)

        assert f"ACTIVE_CONTENT id={main}\nprint('one')\n" in await session.render()
        assert extra not in session.sets.active_set


async def test_infrastructure_and_foreign_objects_are_refused(
    store_url: str, sid: str, project: Path
) -> None:
    """An agent controls its content objects and nothing else (003-R025, 003-R109, 003-R111)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        before = (await client.store.status()).sequence

        for act in (session.activate, session.deactivate, session.pin, session.unpin):
            with pytest.raises(NotContent):
                await act(f"chat:{sid}")
            with pytest.raises(NotFound):
                await act("never-met")

        assert (await client.store.status()).sequence == before


async def test_invalid_text_is_refused_and_changes_nothing(
    store_url: str, sid: str, project: Path
) -> None:
    """A lone surrogate from a harness must not break its session (PG-07)."""
    half, path = "\ud800", {"path": "/workspace/notes.md"}
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        before = await session.render("sent")

        for wrong in (
            session.render(half),
            session.render(None),  # type: ignore[arg-type]
            session.record(f"{sid}-1", tool="read", args=path, output=None),  # type: ignore[arg-type]
            session.end_turn(half),
            session.end_turn(5),  # type: ignore[arg-type]
            session.end_turn([5]),  # type: ignore[list-item]
        ):
            with pytest.raises(Incorrect):
                await wrong

        assert await session.render("sent") == before
        assert await session.end_turn("answered") == 1


async def test_old_outputs_collapse_and_pins_stay(store_url: str, sid: str) -> None:
    """The active set stays bounded without the agent's help (003-R138 to R142, PG-04)."""
    async with ctxmgr.connect(store_url, window=ctxmgr.Window(per_turn=1, turns_back=2)) as client:
        session = await client.start(sid, system_prompt="")
        for n in range(1, 5):
            await session.render(f"turn {n}")
            for call in "ab":
                await session.record(f"{sid}-{n}{call}", tool="t", args={}, output="out")
            if n == 1:
                await session.pin(f"{sid}-1a")
            await session.end_turn("done")

    assert list(session.sets.active_set) == [f"{sid}-1a", f"{sid}-3b", f"{sid}-4b"]
    assert len(session.sets.metadata_pool) == 8


async def test_recording_the_same_call_again_changes_nothing(store_url: str, sid: str) -> None:
    """A retry is harmless, but reusing an id for another call is refused (003-R071, 003-A20)."""
    async with ctxmgr.connect(store_url) as client:
        session = await client.start(sid, system_prompt="")
        await session.record(f"{sid}-1", tool="t", args={"a": 1}, output="out")
        before = (await client.store.status()).sequence

        await session.record(f"{sid}-1", tool="t", args={"a": 1}, output="out")
        with pytest.raises(Incorrect):
            await session.record(f"{sid}-1", tool="t", args={"a": 1}, output="other")

        assert (await client.store.status()).sequence == before
        history = await client.store.history(f"{sid}-1")
        assert len(history.entries) == 1


async def test_equal_states_give_equal_prompts_and_only_the_end_changes(
    store_url: str, sid: str
) -> None:
    """Sent text does not change, so that providers can cache it (003-R137, PG-09)."""
    async with ctxmgr.connect(store_url) as client:
        session = await client.start(sid, system_prompt="Be careful.")
        first = await session.render("one")
        again = await session.render("one")
        await session.end_turn("1")

        second = await session.render("two")

    assert first == again
    assert second.startswith(first)


async def test_a_context_has_a_form_for_each_api(store_url: str, sid: str) -> None:
    """The same context in each provider's form (003-R009)."""
    async with ctxmgr.connect(store_url) as client:
        session = await client.start(sid, system_prompt="Be careful.")
        await session.render("go")
        await session.record(f"{sid}-1", tool="t", args={}, output="out")
        part = toolcall_part(f"{sid}-1", call_id="call_0", tool="t", args={})
        await session.end_turn([text_part("Going."), part])

        anthropic = await session.render(form="anthropic")
        openai = await session.render(form="openai")

    assert [message["role"] for message in anthropic["messages"]] == ["user", "assistant", "user"]
    assert [message["role"] for message in openai["messages"]] == [
        *("system", "user", "assistant", "tool", "user")
    ]


async def test_the_client_keeps_the_index_and_the_sets(
    store_url: str, sid: str, project: Path
) -> None:
    """What a call finds is in the pool, and what is read is active as well (003-R148)."""
    async with ctxmgr.connect(store_url, mounts=mount(project), tracking=False) as client:
        session = await client.start(sid, system_prompt="")
        await session.record(sid, tool="ls", args={"path": "/workspace/src"}, output="main.py\n")
        file = await session.read("/workspace/notes.md")

        stored = await client.stored_sets(sid)

    known = [sid, file.object_id]
    (found,) = set(stored.session_index) - set(known)
    assert set(stored.metadata_pool) == {found, *known}
    assert list(stored.active_set) == known


async def test_two_clients_change_one_session(store_url: str, sid: str) -> None:
    """Neither loses the other's changes (003-A21, 003-R124, 003-R148)."""
    async with ctxmgr.connect(store_url) as one, ctxmgr.connect(store_url) as two:
        here = await one.start(sid, system_prompt="")
        there = await two.resume(sid)

        await asyncio.gather(
            *(here.record(f"{sid}-h{n}", tool="t", args={}, output="h") for n in range(3)),
            *(there.record(f"{sid}-t{n}", tool="t", args={}, output="t") for n in range(3)),
        )
        await here.pin(f"{sid}-h0")
        await there.deactivate(f"{sid}-t0")
        await here.unpin(f"{sid}-h0")

        third = await one.stored_sets(sid)
    assert len(third.session_index) == 6
    assert f"{sid}-t0" not in third.active_set
    assert list(third.pinned_set) == []


async def test_ending_a_turn_after_another_client_is_a_conflict(store_url: str, sid: str) -> None:
    """The answer belongs to a prompt without the other's turn (003-A21)."""
    async with ctxmgr.connect(store_url) as one, ctxmgr.connect(store_url) as two:
        here = await one.start(sid, system_prompt="")
        there = await two.resume(sid)
        await here.render("mine")
        await there.render("theirs")
        await there.end_turn("first")

        with pytest.raises(Conflict):
            await here.end_turn("second")

        assert "first" in await here.render("mine")
        assert await here.end_turn("now it is") == 2


async def test_two_agents_share_files_and_nothing_else(
    store_url: str, sid: str, project: Path
) -> None:
    """One file is one object, but each session has its own sets.

    Rows: 003-R006, 003-R063, 003-R122 to R125.
    """
    async with (
        ctxmgr.connect(store_url, mounts=mount(project)) as one,
        ctxmgr.connect(store_url, mounts=mount(project)) as two,
    ):
        here = await one.start(f"{sid}-1", system_prompt="")
        there = await two.start(f"{sid}-2", system_prompt="")
        mine = await here.read("/workspace/notes.md")

        theirs = await there.read("/workspace/notes.md")
        await here.deactivate(mine.object_id)

        assert mine.object_id == theirs.object_id
        assert list(there.sets.active_set) == [mine.object_id]
        assert len((await one.store.history(mine.object_id)).entries) == 1


async def test_a_turn_is_one_transaction(store_url: str, sid: str) -> None:
    """Chat, session and record agree after any crash (003-R078, 003-R112, 003-R146)."""
    async with ctxmgr.connect(store_url, window=ctxmgr.Window(per_turn=0)) as client:
        session = await client.start(sid, system_prompt="")
        await session.render("go")
        await session.record(f"{sid}-1", tool="t", args={}, output="out")
        before = (await client.store.status()).sequence

        await session.end_turn("gone")

        (transaction,) = await client.store.feed(after=before)
        chat = await client.store.get(f"chat:{sid}", as_of=AsOf(sequence=transaction.sequence))
    assert [write.object_id for write in transaction.writes] == [
        *(f"chat:{sid}", f"turn:{sid}:1", f"session:{sid}")
    ]
    assert chat is not None
    assert chat.document["toolcall_refs"] == [f"{sid}-1"]


async def test_a_system_prompt_has_a_version_per_text(store_url: str, sid: str) -> None:
    """An equal text is not a new version (003-R083, 003-R034, 003-R182)."""
    async with ctxmgr.connect(store_url) as client:
        session = await client.start(sid, system_prompt="one")
        await session.change_system_prompt("one")
        await session.change_system_prompt("two")

        history = await client.store.history(f"system_prompt:{sid}")
        prompt = await session.render()

    assert len(history.entries) == 2
    assert prompt == "two\n"


async def test_a_late_system_prompt_keeps_the_turns_of_another_client(
    store_url: str, sid: str
) -> None:
    """The next prompt shows the other's turns and can be rebuilt (003-A21, 003-R012)."""
    async with ctxmgr.connect(store_url) as one, ctxmgr.connect(store_url) as two:
        here = await one.start(sid, system_prompt="one")
        there = await two.resume(sid)
        await there.change_system_prompt("theirs")
        await there.render("asked there")
        await there.end_turn("answered there")

        with pytest.raises(Conflict):
            await here.change_system_prompt("mine")
        sent = await here.render("asked here")
        await here.end_turn("answered here")

        assert "answered there" in sent
        assert (await one.prompt_as_of(sid, turn=2)).text() == sent


async def test_a_shortened_array_of_turns_adds_only_what_is_new(store_url: str, sid: str) -> None:
    """A harness may compact its array; the chat neither repeats nor loses turns (PG-08)."""
    turns = [ctxmgr.Turn(user=f"{n}", assistant=(text_part(f"to {n}"),)) for n in range(1, 5)]
    async with ctxmgr.connect(store_url) as client:
        session = await client.start(sid, system_prompt="")
        await session.take_turns(turns[:3])

        added = await session.take_turns([turns[2], turns[3]])
        again = await session.take_turns([turns[3]])
        unknown = ctxmgr.Turn(user="", assistant=(), toolcall_ids=("never",))
        with pytest.raises(Incorrect):
            await session.take_turns([turns[3], unknown])

    assert (added, again) == (1, 0)
    assert [turn.user for turn in session.chat.turns] == ["1", "2", "3", "4"]


async def test_showing_objects_does_not_change_them(
    store_url: str, sid: str, project: Path
) -> None:
    """Visibility belongs to the session, and nothing is ever deleted (003-R014, 003-A37)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        before = (await client.store.status()).sequence
        session = await client.start(sid, system_prompt="")
        file = await session.read("/workspace/notes.md")
        for act in (session.deactivate, session.activate, session.pin, session.unpin):
            await act(file.object_id)

        history = await client.store.history(file.object_id)
        writes = [write for part in await client.store.feed(after=before) for write in part.writes]

    (entry,) = history.entries
    assert entry.document is not None
    assert entry.document["object_hash"] == file.object_hash
    assert not any(write.deleted for write in writes)
