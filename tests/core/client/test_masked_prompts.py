"""Secrets in what was said, in arguments and in names of files are not sent to the provider."""

from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

import ctxmgr
from ctxmgr import Client, Secrets
from ctxmgr.core.client import live_session
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.history.reading import read_chat, read_prompts
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.secrets import masking

SECRETS = {
    place: (f"gh{'p'}_" + letters * 12)[:40]
    for place, letters in {
        "user": "Ua1",
        "said": "Sb2",
        "args": "Ac3",
        "name": "Nd4",
        "next": "Xe5",
    }.items()
}


@pytest.fixture(params=["economy", "compact"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def client(tmp_path: Path, policy: str) -> AsyncIterator[Client]:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / f"{SECRETS['name']}.txt").write_text("text\n", encoding="utf-8")
    async with ctxmgr.connect(
        f"sqlite:///{tmp_path}/s.db",
        directory=str(tmp_path / "project"),
        tracking=False,
        policy=policy,
    ) as client:
        yield client


async def take_turn(session: LiveSession) -> None:
    """Say secrets, call a tool with one, and read a file whose name is one."""
    n = session.turn
    await session.render(f"My token is {SECRETS['user']}.")
    args = {
        "command": f"curl -H 'Authorization: Bearer {SECRETS['args']}' host",
        "deep": [{"a": 1}],
    }
    await session.record(f"call-{n}", tool="bash", args=args, output="done\n", discover=False)
    await session.read(f"{SECRETS['name']}.txt")
    call = toolcall_part(f"call-{n}", call_id=f"c{n}", tool="bash", args=args)
    await session.end_turn([text_part(f"I use {SECRETS['said']} now."), call])


def leaked(prompt: object) -> set[str]:
    text = prompt if isinstance(prompt, str) else orjson.dumps(prompt).decode()
    return {place for place, secret in SECRETS.items() if secret in text}


@pytest.mark.parametrize("form", ["text", "anthropic", "openai"])
async def test_no_secret_is_sent(client: Client, form: str) -> None:
    """A provider that did not get it cannot keep it; the store has it, for the person."""
    session = await client.start("s1", system_prompt="")
    await take_turn(session)
    await take_turn(session)

    prompt = await session.render(f"And {SECRETS['next']}?", form=form)

    assert leaked(prompt) == set()
    assert "[secret:" in str(prompt)
    assert SECRETS["user"] in session.chat.turns[0].user
    assert "user" in leaked(await session.render("?", form=form, policy="plain"))


async def test_masked_prompts_are_proven(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later release may recognise other secrets; what was sent is rebuilt from its record."""
    session = await client.start("s1", system_prompt="")
    for _ in range(3):
        await take_turn(session)
    sent = await session.render("Go on.")
    await session.end_turn("Yes.")

    monkeypatch.setattr(masking, "mask", lambda text, **_: masking.MaskedText(text=text, found=()))

    assert (await client.prompt_as_of("s1", turn=4)).text() == sent
    chat = await read_chat(client.store, "s1")
    read = await read_prompts(client.store, chat, first=1, last=4)
    assert len(list(read.prompts(count=len))) == 4


async def test_a_resumed_session_masks_as_before(client: Client) -> None:
    """The prefix that the provider has cached stays the same."""
    session = await client.start("s1", system_prompt="")
    await take_turn(session)
    await take_turn(session)
    expected = await session.render("Go on.")
    await client.pause("s1")

    resumed = await client.resume("s1")

    assert await resumed.render("Go on.") == expected


async def test_a_message_that_replaces_another_is_masked_by_itself(client: Client) -> None:
    """The positions in one text say nothing about another."""
    session = await client.start("s1", system_prompt="")
    await session.render(f"{SECRETS['user']} is my token.")
    await session.render(f"It is {SECRETS['user']}.", policy="plain")
    await session.end_turn("Thank you.")

    prompt = await session.render("?")

    assert leaked(prompt) == set()
    assert "It is [secret:" in prompt
    await session.end_turn("Yes.")
    assert (await client.prompt_as_of("s1", turn=2)).text() == prompt


async def test_show_masks_nothing(tmp_path: Path, policy: str) -> None:
    """The setting applies to all of it alike."""
    async with ctxmgr.connect(
        "sqlite://:memory:", secrets=Secrets.SHOW, policy=policy, directory=str(tmp_path)
    ) as client:
        session = await client.start("s1", system_prompt="")

        assert SECRETS["user"] in await session.render(f"My token is {SECRETS['user']}.")


@pytest.mark.parametrize("policy", ["compact"])
async def test_a_prompt_of_the_first_compact_form_is_proven(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not masked, and its record has no positions."""
    monkeypatch.setattr(live_session, "COMPACT_RENDERER", "compact/1")
    session = await client.start("s1", system_prompt="")
    monkeypatch.setattr(session.state.runtime.masker, "policy", Secrets.SHOW)
    await take_turn(session)
    sent = await session.render("Go on.")
    await session.end_turn("Yes.")

    assert leaked(sent) == {"user", "said", "name"}
    assert (await client.prompt_as_of("s1", turn=2)).text() == sent
    record = await client.store.get("turn:s1:2")
    assert record is not None
    assert "masks" not in record.document


@pytest.mark.parametrize("policy", ["compact"])
@pytest.mark.parametrize("renderer", ["compact/2", "compact/3"])
async def test_a_compact_record_lists_only_new_positions(
    client: Client, monkeypatch: pytest.MonkeyPatch, renderer: str
) -> None:
    """Listing those of all turns every time takes quadratic space; such records are still read."""
    monkeypatch.setattr(live_session, "COMPACT_RENDERER", renderer)
    session = await client.start("s1", system_prompt="")
    sent, listed = list[str](), list[int]()
    for number in range(1, 9):
        if number == 5:  # a record of another form in between
            await session.render("Go on.", policy="plain")
            await session.end_turn("Yes.")
            sent.append("")
            continue
        sent.append(await session.render(f"Turn {number}: my token is {SECRETS['user']}."))
        await session.end_turn("Yes.")
        record = await client.store.get(f"turn:s1:{number}")
        assert record is not None
        listed.append(len(record.document.get("masks", {})))

    assert all("[secret:" in prompt for prompt in sent if prompt)
    if renderer == "compact/3":
        assert listed == [1, 1, 1, 1, 5, 1, 1]
    else:
        assert listed == [1, 2, 3, 4, 5, 6, 7]
    for number, prompt in enumerate(sent, start=1):
        if prompt:
            assert (await client.prompt_as_of("s1", turn=number)).text() == prompt


@pytest.mark.parametrize("policy", ["compact"])
async def test_names_in_the_list_of_objects_are_masked(client: Client) -> None:
    """`list_objects` shows what the pool leaves out, and is sent like it."""
    session = await client.start("s1", system_prompt="")
    await take_turn(session)

    assert leaked("".join(session.known_objects())) == set()
    assert "[secret:" in "".join(session.known_objects())


@pytest.mark.parametrize("policy", ["economy"])
async def test_the_output_of_an_interrupted_turn_is_shown(client: Client) -> None:
    """003-R115: the process was killed after a tool ran and before its turn was stored."""
    session = await client.start("s1", system_prompt="")
    await take_turn(session)
    await session.render("Build it.")
    args = {"command": f"make KEY={SECRETS['args']}"}
    await session.record("lost", tool="bash", args=args, output="built in 3 s\n", discover=False)
    await client.pause("s1")

    resumed = await client.resume("s1")
    prompt = await resumed.render("Build it.")

    assert "its turn was interrupted]\nbuilt in 3 s\n" in prompt
    assert leaked(prompt) == set()
    await resumed.end_turn("Built.")
    assert (await client.prompt_as_of("s1", turn=2)).text() == prompt
    assert "built in 3 s" in await resumed.render("Next.")
