"""The policy of a session: given once, stored, and kept wherever the session goes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr import Client, Corrupt, Economy, Incorrect, Prices, Put
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.history.session_policy import policy_document, policy_of
from ctxmgr.core.objects.answers import toolcall_part
from ctxmgr.core.store.documents import Document

LOG = "".join(f"step {n} of the build has finished\n" for n in range(400))
ARGS = {"command": "make"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as client:
        yield client


async def one_turn(session: LiveSession, **render: Any) -> None:
    """Take a turn whose output is long."""
    call = f"{session.session_id}-{session.turn}"
    await session.render("Build it.", **render)
    await session.record(call, tool="bash", args=ARGS, output=LOG, discover=False)
    await session.end_turn([toolcall_part(call, call_id=call, tool="bash", args=ARGS)])


async def renderer(client: Client, session_id: str, turn: int) -> str:
    record = await client.store.get(f"turn:{session_id}:{turn}")
    assert record is not None
    return str(record.document["renderer"]).partition("/")[0]


async def test_a_session_without_a_policy_is_plain(client: Client) -> None:
    """003-A31: the bare library gives the four sections of the specification."""
    session = await client.start("s1", system_prompt="Be careful.")
    await one_turn(session)

    assert session.policy == "plain"
    assert await session.render("Go on.") == session.context("Go on.").text()
    assert await renderer(client, "s1", 1) == "plain"


async def test_the_policy_is_given_once(client: Client) -> None:
    """Forgotten in one call of ``render``, it used to send that turn in the plain form."""
    session = await client.start("s1", system_prompt="Be careful.", policy="economy")
    await one_turn(session)

    prompt = await session.render("Go on.")

    assert session.policy == Economy()
    assert session.policy_name == "economy"
    assert "toolcall #1 tool=bash" in prompt
    assert LOG not in prompt
    assert await renderer(client, "s1", 1) == "economy"


async def test_connect_gives_new_sessions_their_policy(tmp_path: Path) -> None:
    """A harness has one policy for all its sessions; ``start`` may give one of them another."""
    lean = Economy(fidelity=0.2, prices=Prices(read=0.25, write=1.0))
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", policy=lean) as client:
        session = await client.start("s1", system_prompt="")
        other = await client.start("s2", system_prompt="", policy="plain")

    assert (session.policy, other.policy) == (lean, "plain")


async def test_a_policy_holds_after_a_resume(tmp_path: Path) -> None:
    """Another process resumes the session, and its client has a policy of its own."""
    url, faithful = f"sqlite:///{tmp_path}/s.db", Economy(fidelity=0.9, model="large")
    async with ctxmgr.connect(url) as client:
        await one_turn(await client.start("s1", system_prompt="", policy=faithful))
        await one_turn(await client.start("s2", system_prompt=""))

    async with ctxmgr.connect(url, policy="economy") as client:
        resumed, visited = await client.resume("s1"), await client.visit("s1")
        plain = await client.resume("s2")
        await one_turn(plain)

        assert (resumed.policy, visited.policy, plain.policy) == (faithful, faithful, "plain")
        assert await renderer(client, "s2", 2) == "plain"


async def test_a_policy_can_be_changed_for_good(client: Client) -> None:
    """A session that has become long continues under another policy, also after a resume."""
    session = await client.start("s1", system_prompt="")
    await one_turn(session)
    await session.change_policy("economy")
    await one_turn(session)
    await client.pause("s1")
    resumed = await client.resume("s1")
    await one_turn(resumed)
    await client.pause("s1")
    again = await client.resume("s1", policy="plain")
    await client.pause("s1")

    assert resumed.policy == Economy()
    assert [await renderer(client, "s1", n) for n in (1, 2, 3)] == ["plain", "economy", "economy"]
    assert (again.policy, (await client.resume("s1")).policy) == ("plain", "plain")


async def test_one_prompt_may_have_another_policy(client: Client) -> None:
    """To look at the whole text once does not change the session."""
    session = await client.start("s1", system_prompt="", policy="economy")
    await one_turn(session)

    whole = await session.render("Go on.", policy="plain")

    assert whole == session.context("Go on.").text()
    assert LOG in whole
    assert LOG not in await session.render("Go on.")


async def test_a_fork_has_the_policy_of_its_turn(client: Client) -> None:
    """The policy is part of the state that a fork continues from."""
    session = await client.start("s1", system_prompt="", policy="economy")
    await one_turn(session)
    await session.change_policy("plain")
    await one_turn(session)

    early = await client.fork("s1", turn=1, new_session_id="early")
    late = await client.fork("s1", turn=2, new_session_id="late")
    await client.pause("early")

    assert (early.policy, late.policy) == (Economy(), "plain")
    assert (await client.resume("early")).policy == Economy()


async def test_a_policy_travels_in_a_bundle(tmp_path: Path) -> None:
    """On another machine the session continues as it was, and its past prompts are proven."""
    lean = Economy(fidelity=0.3)
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/a.db", policy=lean) as client:
        await one_turn(await client.start("s1", system_prompt=""))
        await client.export_session("s1", path=tmp_path / "s1.bundle")

    async with ctxmgr.connect(f"sqlite:///{tmp_path}/b.db") as client:
        await client.import_session(tmp_path / "s1.bundle")
        session = await client.resume("s1")
        await one_turn(session)

        assert session.policy == lean
        assert await renderer(client, "s1", 2) == "economy"
        assert (await client.prompt_as_of("s1", turn=2)).user.endswith("Build it.")


async def test_an_import_keeps_a_policy_that_was_changed_here(tmp_path: Path) -> None:
    """A bundle brings what happened elsewhere; how prompts look here stays a choice made here."""
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db") as client:
        session = await client.start("s1", system_prompt="", policy="economy")
        await one_turn(session)
        await client.export_session("s1", path=tmp_path / "s1.bundle")
        await session.change_policy("plain")
        await client.pause("s1")

        await client.import_session(tmp_path / "s1.bundle")

        assert (await client.resume("s1")).policy == "plain"


@pytest.mark.parametrize("policy", [Economy(fidelity=0.2), "plain"])
async def test_a_session_of_an_earlier_version_has_that_of_its_last_turn(
    client: Client, policy: str | Economy
) -> None:
    """Version 0.1 stored no policy; its turn records say how prompts were rendered."""
    session = await client.start("s1", system_prompt="")
    await one_turn(session, policy=policy)
    await client.pause("s1")
    await client.store.commit([ctxmgr.Delete("policy:s1")])

    resumed = await client.resume("s1")

    assert resumed.policy == policy


@pytest.mark.parametrize(
    "change",
    [
        {"name": "lavish"},
        {"name": "plain"},  # which has no settings
        {"name": ["economy"]},
        {"settings": None},
        {"settings": {"fidelity": 7}},
        {"settings": {"fidelity": "much"}},
        {"settings": {"window_tokens": 0}},
        {"settings": {"prices": {"read": -1.0}}},
        {"settings": {"prices": {"read": "free"}}},
        {"session": "s2"},
        {"run": "rm -rf /"},
    ],
    ids=str,
)
async def test_a_forged_policy_is_corrupt(client: Client, change: Document) -> None:
    """Whoever can write to the store may have put anything there; it is never a raw exception."""
    document = policy_document("s1", Economy()) | change
    await client.start("s1", system_prompt="")
    await client.pause("s1")
    await client.store.commit([Put(document)])

    with pytest.raises(Corrupt, match=r"policy"):
        await client.resume("s1")
    assert (await client.resume("s1", policy="economy")).policy == Economy()


def test_settings_of_another_version_are_read() -> None:
    """A later version may add settings, and an earlier one has fewer."""
    document = policy_document("s1", Economy(fidelity=0.3))
    del document["settings"]["calls_expected"]
    document["settings"]["to_come"] = True

    assert policy_of(document) == Economy(fidelity=0.3)


@pytest.mark.parametrize("policy", ["economi", "", None, 1])
async def test_an_unknown_policy_is_refused(client: Client, policy: Any) -> None:
    """A typing error must not silently select another form."""
    with pytest.raises(Incorrect, match=r"unknown policy .* \(one of: plain, .*economy\)"):
        await (await client.start("s1", system_prompt="")).change_policy(policy)


async def test_open_starts_and_resumes(tmp_path: Path) -> None:
    """A program with a fixed id runs twice in a row."""
    turns = []
    for prompt in ("Be careful.", "Be careful.", "Be quick."):
        async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", policy="economy") as client:
            session = await client.open("task-1", system_prompt=prompt)
            await one_turn(session)
            turns.append((session.turn, session.policy_name, prompt in await session.render()))

    assert turns == [(2, "economy", True), (3, "economy", True), (4, "economy", True)]


async def test_open_may_change_the_policy(tmp_path: Path) -> None:
    """The program was edited between two runs."""
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db") as client:
        await client.open("s1", system_prompt="")
        await client.pause("s1")
        session = await client.open("s1", system_prompt="", policy="economy")
        await client.pause("s1")

        assert session.policy == Economy()
        assert (await client.open("s1", system_prompt="")).policy == Economy()


async def test_a_taken_id_has_one_short_traceback(client: Client) -> None:
    """The conflict in the store is not what the caller has to read."""
    await client.start("s1", system_prompt="")

    with pytest.raises(Incorrect, match=r"exists already; resume it, or open it") as raised:
        await client.start("s1", system_prompt="")

    assert raised.value.__suppress_context__


async def test_the_system_prompt_is_named_in_its_error(client: Client) -> None:
    """``content`` is a field of the store that the caller has never seen."""
    for method in (client.start, client.open):
        with pytest.raises(Incorrect, match=r"system_prompt must be a string, not None"):
            await method("s1", system_prompt=None)  # type: ignore[arg-type]
