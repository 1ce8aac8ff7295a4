"""Pause on one machine, resume on another: what a session needs from a store, end to end.

Touches the stores that the two given functions open. Any pair of openers works: two handles on
one file, two clients of one server, two containers.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from ctxmgr.core.store.contract import AsOf, Commit, FieldType, Kind, Match, Put, Query, Store
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Conflict

Open: TypeAlias = Callable[[], Awaitable[Store]]

JOURNEY_KIND: Final = Kind("session", {"agent": FieldType.TEXT, "paused": FieldType.BOOLEAN})
JOURNEY_KINDS: Final = {JOURNEY_KIND.name: JOURNEY_KIND}
"""Declare these in both stores."""

FILES: Final = 40
TURNS: Final = 12


async def pause_and_resume(open_here: Open, open_there: Open, *, mark: str) -> None:
    """Save and pause here, resume and continue there, cause a conflict, and merge it."""
    point = await _work_and_pause(open_here, mark)
    there = await open_there()
    try:
        await _resume_and_continue(there, mark)
        await _merge_two_clients(open_here, there, mark)
        await _read_as_it_was_paused(there, mark, point)
    finally:
        await there.close()


async def _work_and_pause(open_here: Open, mark: str) -> int:
    """Twelve turns, each one transaction; the last sequence is the point of the pause."""
    store = await open_here()
    try:
        files = [_file(mark, number) for number in range(FILES)]
        commit = await store.commit(
            [Put(_session(mark, [])), Put(_chat(mark, 0)), *(Put(file) for file in files)]
        )
        for turn in range(1, TURNS + 1):
            commit = await store.commit(
                [
                    Match(_id(mark, "session"), commit.token),
                    Match(_id(mark, "chat"), commit.token),
                    Put(_session(mark, [file["xt/id"] for file in files[: turn * 3]])),
                    Put(_chat(mark, turn)),
                ]
            )
        return await _pause(store, mark, commit)
    finally:
        await store.close()


async def _pause(store: Store, mark: str, last: Commit) -> int:
    session = await _require(store, _id(mark, "session"))
    paused = await store.commit(
        [Match(_id(mark, "session"), last.token), Put({**session, "paused": True})],
        key=f"{mark}-pause",
    )
    return paused.sequence


async def _resume_and_continue(store: Store, mark: str) -> None:
    """Step 1: the wrapper with its four sets. Step 2: all objects of the index in one batch."""
    page = await store.find(Query("session", {"agent": mark, "paused": True}))
    (wrapper,) = page.versions
    assert wrapper.document["session_index"] == [_id(mark, f"file-{n}") for n in range(36)]
    assert wrapper.document["active_set"] == [_id(mark, f"file-{n}") for n in range(33, 36)]

    objects = await store.get_many(wrapper.document["session_index"])
    assert list(objects) == wrapper.document["session_index"]
    assert [version.document for version in objects.values()] == [_file(mark, n) for n in range(36)]

    chat = await store.get(_id(mark, "chat"))
    assert chat is not None
    assert chat.document == _chat(mark, TURNS)
    await store.commit(
        [
            Match(wrapper.object_id, wrapper.token),
            Match(chat.object_id, chat.token),
            Put({**wrapper.document, "paused": False}),
            Put(_chat(mark, TURNS + 1)),
        ]
    )


async def _merge_two_clients(open_here: Open, there: Store, mark: str) -> None:
    """Both add to the index; the second write is refused, retried, and loses nothing."""
    here = await open_here()
    try:
        read = [await store.get(_id(mark, "session")) for store in (here, there)]
        first, second = (version for version in read if version is not None)
        await here.commit(_adding(first.document, first.token, _id(mark, "file-38")))
        try:
            await there.commit(_adding(second.document, second.token, _id(mark, "file-39")))
        except Conflict as conflict:
            assert conflict.object_ids == (_id(mark, "session"),)  # noqa: PT017
        else:
            raise AssertionError("the second writer was not refused")
        again = await there.get(_id(mark, "session"))
        assert again is not None
        merged = {**again.document, "session_index": _union(again.document, second.document)}
        await there.commit(_adding(merged, again.token, _id(mark, "file-39")))
        index = (await _require(here, _id(mark, "session")))["session_index"]
        assert index == [_id(mark, f"file-{n}") for n in (*range(36), 38, 39)]
    finally:
        await here.close()


async def _read_as_it_was_paused(store: Store, mark: str, sequence: int) -> None:
    """The paused state can still be read, whatever came after."""
    then = await store.get(_id(mark, "session"), as_of=AsOf(sequence=sequence))
    assert then is not None
    assert then.document["paused"] is True
    assert len(then.document["session_index"]) == 36
    entries = (await store.history(_id(mark, "chat"), corrections=True)).entries
    assert len(entries) == TURNS + 2


def _adding(session: Document, token: str | None, object_id: str) -> list[Match | Put]:
    index = [*session["session_index"], object_id]
    return [Match(session["xt/id"], token), Put({**session, "session_index": index})]


def _union(one: Document, other: Document) -> list[str]:
    return list(dict.fromkeys([*one["session_index"], *other["session_index"]]))


async def _require(store: Store, object_id: str) -> Document:
    version = await store.get(object_id)
    assert version is not None
    return version.document


def _id(mark: str, name: str) -> str:
    return f"{mark}:{name}"


def _session(mark: str, index: list[str]) -> Document:
    return {
        "xt/id": _id(mark, "session"),
        "type": "session",
        "agent": mark,
        "paused": False,
        "session_index": index,
        "metadata_pool": index[-6:],
        "active_set": index[-3:],
        "pinned_set": index[-1:],
        "chat_ref": _id(mark, "chat"),
    }


def _chat(mark: str, turns: int) -> Document:
    turns: list[dict[str, Any]] = [
        {"user": f"question {turn}", "assistant": "answer " * 300, "toolcall_ids": []}
        for turn in range(turns)
    ]
    return {"xt/id": _id(mark, "chat"), "type": "chat", "content": None, "turns": turns}


def _file(mark: str, number: int) -> Document:
    content = f"line of file {number}\n" * (1 if number % 10 else 20_000)
    return {"xt/id": _id(mark, f"file-{number}"), "type": "file", "content": content}
