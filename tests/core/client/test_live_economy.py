"""Sessions rendered under the economy policy: real client, real store, real files."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.assembly import Section
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.objects.chat import AssistantMeta
from ctxmgr.core.store.contract import Put
from ctxmgr.errors import Conflict, Corrupt, WindowExceeded
from tests.core.builders.clients import with_clock, with_forms
from tests.core.builders.streams import long_output

TEXT = "first line of the file\n" + "".join(f"value_{at} = {at}\n" for at in range(40))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as client:
        yield with_forms(client, {"context": lambda context: context})


@pytest.fixture
async def session(client: Client) -> LiveSession:
    return await client.start("s1", system_prompt="Be careful.")


async def turn(session: LiveSession, *, lines: int = 100, policy: Any = "economy") -> str:
    """Run one turn whose answer calls a command; return its prompt."""
    n = session.turn
    prompt = await session.render(f"go {n}", policy=policy)
    args = {"command": f"make {n}"}
    output = long_output(f"run{n}", lines=lines)
    await session.record(f"{session.session_id}-{n}", tool="bash", args=args, output=output)
    part = toolcall_part(f"{session.session_id}-{n}", call_id=f"c{n}", tool="bash", args=args)
    await session.end_turn([text_part("making"), part])
    return str(prompt)


async def test_without_a_policy_the_plain_form_is_used(session: LiveSession) -> None:
    """003-A31: the four sections stay the default, byte for byte."""
    await turn(session, policy=None)
    before = session.context("next").text()

    await session.render("next", policy="economy")

    assert await session.render("next") == before
    assert before.endswith(long_output("run1", lines=100) + "\n")


async def test_an_output_appears_once_and_sent_bytes_never_change(
    session: LiveSession,
) -> None:
    """An unchanged prefix is read from the provider's cache at a tenth of the price."""
    prompts = [await turn(session, lines=5) for _ in range(4)]

    last = await session.render("done?", policy="economy")

    for before, after in zip(prompts, [*prompts[1:], last], strict=True):
        assert after.startswith(before)
    assert last.count("value_run2_3") == 1


async def test_every_piece_of_the_stream_names_its_object(session: LiveSession) -> None:
    """Reports of costs and cache breaks can name the tool call."""
    await turn(session)
    context = await session.render("next", policy="economy", form="context")

    blocks = list(context.section(Section.CHAT))

    assert [block.object_id for block in blocks] == ["chat:s1", "chat:s1", "s1-1", None]
    assert context.text().endswith("".join(block.text for block in blocks))


async def test_every_prompt_can_be_rebuilt_and_matches_its_hash(
    client: Client, session: LiveSession
) -> None:
    """What the model saw can be proven, under a policy too."""
    prompts = [await turn(session) for _ in range(9)]

    for number, prompt in enumerate(prompts, start=1):
        again = await client.prompt_as_of("s1", turn=number)

        assert again.text() == prompt


async def test_secrets_are_masked_and_the_prompt_can_still_be_verified(
    client: Client, session: LiveSession
) -> None:
    """A key that a command printed is not sent; the stored output is unchanged."""
    secret = "AKIA" + "QWERTYUIOPASDFGH"
    await session.render("go", policy="economy")
    output = f"export AWS_ACCESS_KEY_ID={secret}\nmore"
    await session.record("c1", tool="bash", args={}, output=output)
    await session.end_turn([toolcall_part("c1", call_id="c1", tool="bash", args={})])

    prompt = await session.render("", policy="economy")
    await session.end_turn("seen")

    assert secret not in prompt
    assert "[secret:aws-" in prompt
    assert (await client.prompt_as_of("s1", turn=2)).text() == prompt


async def test_an_altered_record_fails_verification(client: Client, session: LiveSession) -> None:
    """A view that shows less than was sent must be detected."""
    for _ in range(3):
        await turn(session)
    version = await client.store.get("turn:s1:3")
    assert version is not None
    document = json.loads(json.dumps(version.document))
    document["policy"]["views"]["2.1"]["names"] = ["forged"]
    await client.store.commit([Put(document)])

    with pytest.raises(Corrupt):
        await client.prompt_as_of("s1", turn=3)


async def test_a_resumed_session_starts_with_the_bytes_already_sent(
    client: Client, session: LiveSession
) -> None:
    """The prefix stays cached even if another machine resumes the session."""
    for _ in range(3):
        await turn(session)
    before = await session.render("go on", policy="economy")
    await client.pause("s1")

    resumed = await client.resume("s1")

    assert await resumed.render("go on", policy="economy") == before


async def test_an_imported_session_verifies_its_prompts_and_continues_them(
    client: Client, session: LiveSession, tmp_path: Path
) -> None:
    """A bundle carries what was shown, not only what was stored."""
    prompts = [await turn(session) for _ in range(3)]
    last = await session.render("go on", policy="economy")
    await client.export_session("s1", path=tmp_path / "s1.bundle")

    async with ctxmgr.connect(f"sqlite:///{tmp_path}/other.db", tracking=False) as other:
        await other.import_session(tmp_path / "s1.bundle")
        again = await other.prompt_as_of("s1", turn=3)
        resumed = await other.resume("s1")

        assert again.text() == prompts[2]
        assert await resumed.render("go on", policy="economy") == last


async def test_a_folded_output_is_restored_by_its_handle(session: LiveSession) -> None:
    """Folding keeps the handle, so nothing is ever lost."""
    await turn(session)
    folded = await session.render("again", policy="economy")
    assert long_output("run1", lines=100) not in folded

    await session.activate("#1")

    prompt = await session.render("again", policy="economy")
    assert "[#1 again, in full]\n" + long_output("run1", lines=100) in prompt
    assert prompt.startswith(folded.removesuffix("user: again\n"))


async def test_the_sliding_window_leaves_the_active_set_alone_under_a_policy(
    session: LiveSession,
) -> None:
    """The planner decides what is shown; the agent decides what is active."""
    for _ in range(6):
        await turn(session)

    assert len(session.sets.active_set) == 6


async def test_a_deactivated_output_becomes_a_stub_at_the_next_break(
    client: Client, session: LiveSession
) -> None:
    """The stub gives the price of the text and the names in it."""
    await turn(session, lines=30)
    await session.deactivate("s1-1")

    prompt = await session.render("", policy=Economy(model="another"))

    assert "[#1 bash ok +" in prompt


async def test_a_file_is_shown_where_it_became_active_and_changes_are_appended(
    session: LiveSession, tmp_path: Path
) -> None:
    """003-R138 and D5: later changes are notices; sent text stays where it is."""
    file = tmp_path / "a.py"
    file.write_text(TEXT, encoding="utf-8")
    await session.read(str(file))
    first = await session.render("look", policy="economy")
    await session.end_turn("seen")
    file.write_text(TEXT.replace("value_7 = 7", "value_7 = 8"), encoding="utf-8")
    await session.read(str(file))

    second = await session.render("", policy="economy")

    assert first.count(TEXT) == second.count(TEXT) == 1
    assert second.startswith(first)
    assert f"[#1 {file} changed]" in second
    assert "-value_7 = 7\n+value_7 = 8" in second


async def test_a_file_the_agent_read_itself_is_not_shown_again(
    session: LiveSession, tmp_path: Path
) -> None:
    """Its text is shown once: in the output of the call that read it."""
    file = tmp_path / "a.py"
    file.write_text(TEXT, encoding="utf-8")
    await session.render("read it", policy="economy")
    args = {"path": str(file)}
    await session.record("r1", tool="read", args=args, output=TEXT)
    await session.end_turn([toolcall_part("r1", call_id="r1", tool="read", args=args)])

    prompt = await session.render("", policy="economy")

    assert prompt.count("value_39 = 39") == 1


async def test_the_error_for_a_pin_that_does_not_fit_names_it(session: LiveSession) -> None:
    """The window is never exceeded, and a pin is never dropped silently."""
    await turn(session, lines=300)
    await session.render("", policy="economy")
    await session.pin("#1")

    with pytest.raises(WindowExceeded, match="unpin s1-1"):
        await session.render("", policy=Economy(window_tokens=500))


async def test_the_window_is_measured_in_the_providers_tokens(session: LiveSession) -> None:
    """Its tokenizer differs from ours: what fits by our count may be refused by the provider."""
    question = "word " * 2_000
    roomy, tight = Economy(window_tokens=100_000), Economy(window_tokens=3_500)
    await session.render(question, policy=roomy)
    await session.end_turn("yes")
    fits = await session.render("next", policy=tight, form="context")

    await session.end_turn("yes", meta=AssistantMeta(usage={"input_tokens": 4_000}))

    assert question.strip() in fits.text()
    assert question.strip() not in await session.render("next", policy=tight)


async def test_a_pause_longer_than_the_cache_ttl_starts_a_new_epoch(
    client: Client,
) -> None:
    """Nothing is cached any more, so folding and rewriting the pool cost nothing extra."""
    now = [0.0]
    timed = with_clock(client, lambda: now[0])
    session = await timed.start("s1", system_prompt="Be careful.")
    epochs = []
    for seconds in (0, 10, 1000):
        now[0] += seconds
        await turn(session, lines=3)
        version = await client.store.get(f"turn:s1:{session.turn - 1}")
        assert version is not None
        epochs.append(version.document["policy"]["epoch"])

    assert epochs == [1, 1, 2]


async def test_after_a_lost_race_the_prompt_is_rendered_from_the_store(
    client: Client, session: LiveSession, tmp_path: Path
) -> None:
    """If another client ended its turn first, ours is rendered again after it."""
    await turn(session)
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as other:
        theirs = await other.resume("s1")
        await session.render("mine", policy="economy")
        await turn(theirs)

        with pytest.raises(Conflict):
            await session.end_turn("too late")

    prompt = await session.render("mine", policy="economy")
    assert "value_run2_0" in prompt
    assert "value_run1_0" in prompt


async def test_a_rebuilt_prompt_names_the_files_of_its_pool(
    client: Client, session: LiveSession, tmp_path: Path
) -> None:
    """The cost of a pool line is attributed to its file, as in the live session."""
    (tmp_path / "a.py").write_text(TEXT, encoding="utf-8")
    file = await session.read(str(tmp_path / "a.py"))
    await turn(session)

    again = await client.prompt_as_of("s1", turn=1)

    assert [part.object_id for part in again.section(Section.POOL)] == [file.object_id]
