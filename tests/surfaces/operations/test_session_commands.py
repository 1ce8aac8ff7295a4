"""The commands about sessions, with the same output on both stores."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

import ctxmgr as library
from ctxmgr import Put
from ctxmgr.core.context.tokens import TokenCounter, vocabulary
from ctxmgr.core.objects.hashes import identity_hash
from tests.surfaces.worked_sessions import Worked, json_of, mounts

Run = Callable[..., Result]


def test_sessions_are_listed_with_their_turns_and_objects(ctxmgr: Run, worked: Worked) -> None:
    """The list shows which agents there are, how far they got, and since when."""
    line = _listed(ctxmgr, worked)

    assert (line["turns"], line["state"]) == (3, "paused")
    assert (line["active"], line["metadata"], line["indexed"], line["pinned"]) == (3, 1, 0, 1)
    assert line["last_activity"].endswith("Z")


def test_a_list_of_sessions_continues_on_the_next_page(ctxmgr: Run, worked: Worked) -> None:
    """A long list ends with a cursor and is never cut silently."""
    asyncio.run(_fork(worked))
    everyone = _all_sessions(ctxmgr, worked)

    paged = _all_sessions(ctxmgr, worked, limit=(len(everyone) + 1) // 2)

    assert paged == everyone
    assert {worked.sid, f"{worked.sid}-fork"} <= {session["session_id"] for session in paged}


def test_the_session_that_was_used_last_is_listed_first(ctxmgr: Run, worked: Worked) -> None:
    """People look for what they have just worked on, among hundreds of sessions."""
    asyncio.run(_fork(worked))
    forked = [each["session_id"] for each in _all_sessions(ctxmgr, worked)]
    asyncio.run(_resume(worked))

    listed = _all_sessions(ctxmgr, worked)
    times = [each["last_activity"] for each in listed]

    assert forked.index(f"{worked.sid}-fork") < forked.index(worked.sid)
    assert listed[0]["session_id"] == worked.sid
    assert times == sorted(times, reverse=True)


async def _resume(worked: Worked) -> None:
    async with library.connect(worked.url, mounts=mounts(worked.project), tracking=False) as client:
        await client.resume(worked.sid)
        await client.pause(worked.sid)


async def _damage(worked: Worked) -> None:
    async with await library.open_store(worked.url) as store:
        object_id = f"session:{worked.sid}-x"
        identity = identity_hash("session", object_id=object_id)
        damaged = {"xt/id": object_id, "type": "session", "identity_hash": identity}
        await store.commit([Put(damaged)])


def test_a_damaged_session_does_not_hide_others(ctxmgr: Run, worked: Worked) -> None:
    """A record that fails its check is marked, and the list stays usable."""
    asyncio.run(_damage(worked))

    states = {item["session_id"]: item["state"] for item in _all_sessions(ctxmgr, worked)}
    result = ctxmgr("show", f"{worked.sid}-x", "--store", worked.url)

    assert (states[worked.sid], states[f"{worked.sid}-x"]) == ("paused", "damaged")
    assert result.exit_code == 8


@pytest.mark.parametrize("prefix", ["", "session:"])
def test_a_session_is_summarised(ctxmgr: Run, worked: Worked, prefix: str) -> None:
    """Its id is enough, with or without the prefix."""
    result = json_of(ctxmgr("show", prefix + worked.sid, "--store", worked.url, "--json"))

    assert (result["turns"], result["state"], result["forked_from"]) == (3, "paused", None)
    assert (result["last_user"], result["last_answer"]) == ("Thank you.", "You are welcome.")
    assert result["started"] <= result["last_activity"]
    names = {line["name"]: line["pinned"] for line in result["objects"]}
    assert names == {"/workspace/notes.md": False, "ls": True, "t": False}


def test_objects_are_listed_by_level_under_the_agents_paths(ctxmgr: Run, worked: Worked) -> None:
    """Users see what the agent sees, under the same paths (003-R133)."""
    result = json_of(ctxmgr("objects", worked.sid, "--store", worked.url, "--json"))

    seen = [(entry["name"], entry["level"], entry["state"]) for entry in result["objects"]]
    assert seen == [
        ("/workspace/notes.md", "active", "live"),
        ("ls", "active", "ok"),
        ("t", "active", "fail"),
        ("/workspace/src/main.py", "metadata", "stub"),
    ]
    assert result["objects"][0]["char_count"] == len("port = 9090\n")


def test_objects_are_filtered_by_kind_and_level(ctxmgr: Run, worked: Worked) -> None:
    """Users look for the few files that are expensive."""
    files = json_of(_objects(ctxmgr, worked, "--kind", "file"))
    active = json_of(_objects(ctxmgr, worked, "--kind", "file", "--level", "active"))

    assert [entry["object_id"] for entry in files["objects"]] == [worked.notes, worked.stub]
    assert [entry["object_id"] for entry in active["objects"]] == [worked.notes]


def test_pages_of_objects_are_as_of_one_point(ctxmgr: Run, worked: Worked) -> None:
    """A change between two pages must not repeat or omit an object."""
    first = json_of(_objects(ctxmgr, worked, "--limit", "2"))
    assert ctxmgr("deactivate", worked.sid, worked.notes, "--store", worked.url).exit_code == 0
    rest = json_of(_objects(ctxmgr, worked, "--limit", "2", "--cursor", first["cursor"]))

    ids = [entry["object_id"] for page in (first, rest) for entry in page["objects"]]
    assert sorted(ids) == sorted([worked.notes, worked.stub, f"{worked.sid}-1", f"{worked.sid}-2"])
    assert rest["cursor"] is None


def test_the_log_shows_turn_by_turn(ctxmgr: Run, worked: Worked) -> None:
    """Question, answer and tool calls, and the changes of the sets (003-R004)."""
    result = json_of(ctxmgr("log", worked.sid, "--store", worked.url, "--json"))

    first, second, third = result["entries"]
    assert (first["user"], first["answer"]) == ("Which port?", "It is 8080.")
    assert [(call["tool"], call["status"]) for call in first["calls"]] == [("ls", "ok")]
    assert first["changes"]["met"] == 3
    assert first["changes"]["activated"] == [worked.notes, f"{worked.sid}-1"]
    assert [(call["tool"], call["status"]) for call in second["calls"]] == [("t", "fail")]
    assert second["changes"]["pinned"] == [f"{worked.sid}-1"]
    assert third["changes"]["met"] == 0
    assert result["earlier"] is None


def test_the_log_of_a_long_session_is_read_in_parts(ctxmgr: Run, worked: Worked) -> None:
    """The latest turns are shown by default; an option shows earlier ones."""
    last = json_of(ctxmgr("log", worked.sid, "--limit", "2", "--store", worked.url, "--json"))
    before = ("--before", str(last["earlier"]))
    first = json_of(ctxmgr("log", worked.sid, *before, "--store", worked.url, "--json"))

    assert [entry["turn"] for entry in last["entries"]] == [2, 3]
    assert [entry["turn"] for entry in first["entries"]] == [1]


def test_the_log_ends_with_changes_since_the_last_turn(ctxmgr: Run, worked: Worked) -> None:
    """A colleague's pin is visible before the next turn ends."""
    assert ctxmgr("pin", worked.sid, worked.notes, "--store", worked.url).exit_code == 0

    result = json_of(ctxmgr("log", worked.sid, "--store", worked.url, "--json"))

    assert result["entries"][-1]["turn"] == 4
    assert result["entries"][-1]["valid_time"] is None
    assert result["entries"][-1]["changes"]["pinned"] == [worked.notes]


def test_a_log_is_printed_as_text_for_people(ctxmgr: Run, worked: Worked) -> None:
    """Each item has one line, and ids are abbreviated."""
    result = ctxmgr("log", worked.sid, "--store", worked.url).stdout

    words = " ".join(result.split())
    assert "user Which port? answer It is 8080. call ls ok" in words
    assert f"sets seen 3 activated {worked.notes[:12]}, {worked.sid}-1" in words
    assert worked.notes not in result


def test_long_lists_are_omitted_for_people(ctxmgr: Run, worked: Worked) -> None:
    """A chat of a thousand turns fits a page; programs get all of it."""
    seen = ctxmgr("show", f"chat:{worked.sid}", "--store", worked.url).stdout
    result = json_of(ctxmgr("show", f"chat:{worked.sid}", "--store", worked.url, "--json"))

    assert "3 (listed with --json)" in seen
    assert "Which port?" not in seen
    assert result["fields"]["turns"][0]["user"] == "Which port?"


async def _fork(worked: Worked) -> None:
    where = mounts(worked.project)
    async with library.connect(worked.url, mounts=where, tracking=False) as client:
        fork = await client.fork(worked.sid, turn=2, new_session_id=f"{worked.sid}-fork")
        await fork.render("Another way?")
        await fork.end_turn("Let me try.")


def test_the_log_of_a_fork_includes_its_parents_turns(ctxmgr: Run, worked: Worked) -> None:
    """It shares the parent's history, including the changes of its sets."""
    asyncio.run(_fork(worked))
    fork = f"{worked.sid}-fork"

    result = json_of(ctxmgr("log", fork, "--store", worked.url, "--json"))
    summary = json_of(ctxmgr("show", fork, "--store", worked.url, "--json"))

    assert [entry["answer"] for entry in result["entries"]][1:] == [
        "It is 9090 now.",
        "Let me try.",
    ]
    assert result["entries"][1]["changes"]["pinned"] == [f"{worked.sid}-1"]
    assert not any(result["entries"][2]["changes"].values())
    assert summary["forked_from"] == f"{worked.sid} at turn 2"


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_prompt_is_printed_byte_for_byte(ctxmgr: Run, worked: Worked, turn: int) -> None:
    """Standard output is exactly what was sent, so it can be piped (003-R005)."""
    printed = ctxmgr("context", worked.sid, "--turn", str(turn), "--store", worked.url)

    assert printed.stdout == worked.sent[turn - 1]
    assert "by the turn's record" in printed.stderr
    assert "metadata_pool" in printed.stderr or turn == 1


def test_the_current_prompt_is_the_one_a_client_would_render(ctxmgr: Run, worked: Worked) -> None:
    """The command has no mounts and still shows the agent's paths (003-R133)."""
    result = json_of(ctxmgr("context", worked.sid, "--store", worked.url, "--json"))

    assert (result["turn"], result["proven"]) == (4, False)
    assert result["prompt"] == asyncio.run(_rendered(worked))
    sizes = {section["section"]: section["chars"] for section in result["sections"]}
    assert sizes["system_prompt"] == len("Be careful.\n")


async def _rendered(worked: Worked) -> Any:
    where = mounts(worked.project)
    async with library.connect(worked.url, mounts=where, tracking=False) as client:
        return await (await client.resume(worked.sid)).render()


def test_tokens_are_counted_by_the_models_tokenizer(ctxmgr: Run, worked: Worked) -> None:
    """Counts depend on the model; without one nothing is counted."""
    options = ("--turn", "2", "--store", worked.url, "--json")

    plain = json_of(ctxmgr("context", worked.sid, *options))
    counted = json_of(ctxmgr("context", worked.sid, "--tokens", "gpt-4o", *options))

    assert {section["tokens"] for section in plain["sections"]} == {None}
    assert counted["sections"][0]["tokens"] == TokenCounter(vocabulary("gpt-4o")).count(
        "Be careful.\n"
    )


@pytest.mark.parametrize(("form", "key"), [("anthropic", "system"), ("openai", "messages")])
def test_a_prompt_can_be_printed_in_the_form_of_an_api(
    ctxmgr: Run, worked: Worked, form: str, key: str
) -> None:
    """The output is ready to be sent to the provider by hand."""
    result = ctxmgr("context", worked.sid, "--turn", "2", "--form", form, "--store", worked.url)

    payload = json.loads(result.stdout)
    assert key in payload
    assert "It is 8080." in result.stdout


def _objects(ctxmgr: Run, worked: Worked, *options: str) -> Result:
    return ctxmgr("objects", worked.sid, *options, "--store", worked.url, "--json")


def _listed(ctxmgr: Run, worked: Worked) -> Any:
    matches = _all_sessions(ctxmgr, worked)
    return next(matche for matche in matches if matche["session_id"] == worked.sid)


def _all_sessions(ctxmgr: Run, worked: Worked, *, limit: int = 100) -> list[Any]:
    matches: list[Any] = []
    cursor: tuple[str, ...] = ()
    while True:
        options = ("--limit", str(limit), *cursor, "--store", worked.url, "--json")
        page = json_of(ctxmgr("sessions", *options))
        matches += page["sessions"]
        if page["cursor"] is None:
            return matches
        cursor = ("--cursor", page["cursor"])
