"""The compact form: the plain four sections with short ids, a limited pool, and every text once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxmgr
from ctxmgr import Client, Section, Tools
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.compact import (
    HASH_LENGTH_MIN,
    ID_LENGTH_MIN,
    POOL_LINES_MAX,
    POOL_LINES_STEP,
    short_ids,
)
from ctxmgr.core.objects.answers import toolcall_part
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.surfaces.views.lookup import require_session, resolve_member
from ctxmgr.surfaces.views.timeline import policy_name

CALL = "toolu_01T1x1fJ34qAmk2tNTrN7Up6"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("A = 1\n", encoding="utf-8")
    mounts = [{"agentPrefix": "/src", "canonicalPrefix": str(project)}]
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, mounts=mounts, tracking=False, policy="compact") as client:
        yield client


async def read_file(session: LiveSession, call: str = CALL) -> None:
    """Take a turn in which the agent reads a file."""
    await session.render("Read it.")
    args = {"path": "a.py"}
    await session.record(call, tool="read", args=args, output="A = 1\n")
    await session.end_turn([toolcall_part(call, call_id=call, tool="read", args=args)])


async def find_files(session: LiveSession, files: int) -> None:
    """Take a turn that names many files; those of earlier turns are named again."""
    call = f"find-{files}"
    args = {"command": "find ."}
    await session.render("Look around.")
    output = "".join(f"./dir/file{n}.py\n" for n in range(files))
    await session.record(call, tool="bash", args=args, output=output)
    await session.end_turn([toolcall_part(call, call_id=call, tool="bash", args=args)])


def pool(session: LiveSession) -> list[str]:
    assert session.sent is not None
    text = "".join(block.text for block in session.sent.section(Section.POOL))
    return text.splitlines()


async def test_a_prompt_has_short_ids_and_every_text_once(client: Client) -> None:
    """An id of 64 digits took most of a line, and a file stood there twice after ``read``."""
    session = await client.start("s1", system_prompt="Be careful.")
    await read_file(session)
    (file,) = [item for item in session.sets.session_index if item != CALL]

    prompt = await session.render("And now?")

    assert prompt == (
        "Be careful.\n"
        "\n"
        f"id={file[:6]} path=/src/a.py char_count=6\n"
        "\n"
        "user: Read it.\n"
        "toolcall_ref id=toolu_01T1x1 tool=read status=ok\n"
        "user: And now?\n"
        "\n"
        f"ACTIVE_CONTENT id={file[:6]} path=/src/a.py\n"
        "A = 1\n"
        "\n"
        "ACTIVE_CONTENT id=toolu_01T1x1\n"
        f"[the text of {file[:6]} /src/a.py]\n"
    )


async def test_an_output_that_differs_from_the_file_is_shown(
    client: Client, tmp_path: Path
) -> None:
    """The file has changed since it was read: both texts are needed."""
    session = await client.start("s1", system_prompt="")
    await read_file(session)
    (tmp_path / "project" / "a.py").write_text("A = 2\n", encoding="utf-8")
    await session.read("/src/a.py")

    prompt = await session.render()

    assert "A = 1\n" in prompt
    assert "A = 2\n" in prompt
    assert "the text of" not in prompt


async def test_every_tool_accepts_a_short_id(client: Client) -> None:
    """What the prompt shows is what the model writes."""
    session = await client.start("s1", system_prompt="")
    await read_file(session)
    (file,) = [item for item in session.sets.session_index if item != CALL]
    tools = Tools(session)

    for number, short in enumerate([file[:6], "toolu_01T1x1"]):
        for tool in ("pin", "unpin", "deactivate", "activate"):
            done = await tools.dispatch(f"{tool}{number}", name=tool, args={"id": short})
            assert done.ok, done.message
    stored = await require_session(client.store, "s1")
    assert await resolve_member(client.store, stored, file[:6]) == file


async def test_the_pool_is_limited_and_can_be_listed(client: Client, tmp_path: Path) -> None:
    """003-A28: one ``find`` used to make every later prompt 50,000 tokens longer."""
    folder = tmp_path / "project" / "dir"
    folder.mkdir()
    for n in range(POOL_LINES_MAX + 30):
        (folder / f"file{n}.py").write_text("x\n", encoding="utf-8")
    session = await client.start("s1", system_prompt="")
    await find_files(session, POOL_LINES_MAX)
    await session.render()
    all_shown = pool(session)
    await find_files(session, POOL_LINES_MAX + 1)
    await session.render()
    limited = pool(session)
    await find_files(session, POOL_LINES_MAX + 30)
    await session.render()

    note = f"[{POOL_LINES_STEP} older objects are known: list_objects lists them]"
    assert len(all_shown) == POOL_LINES_MAX
    assert limited[0] == note
    assert len(limited) - 1 == POOL_LINES_MAX + 1 - POOL_LINES_STEP
    assert pool(session)[: len(limited)] == limited  # the beginning stays, and can be cached
    tools = Tools(session)
    assert "list_objects" in {tool.name for tool in tools.definitions}
    pages = [
        (await tools.dispatch(f"list{at}", name="list_objects", args={"offset": at})).message
        for at in (1, 201)
    ]
    listed = [line for page in pages for line in page.splitlines() if "path=" in line]
    assert len(listed) == POOL_LINES_MAX + 30
    assert listed[:POOL_LINES_MAX] == all_shown
    assert (await tools.dispatch("open", name="activate", args={"id": listed[0][3:9]})).ok


async def test_the_layout_of_the_specification_stays(client: Client) -> None:
    """003-R128: the same session in the plain form has one line for each object of the pool."""
    session = await client.start("s1", system_prompt="Be careful.")
    await read_file(session)

    plain = await session.render("And now?", policy="plain")

    assert plain == session.context("And now?").text()
    assert len(plain.split("\n\n")[1].splitlines()) == len(session.sets.metadata_pool)
    assert plain.count("A = 1\n") == 2


async def test_compact_prompts_are_proven(client: Client, tmp_path: Path) -> None:
    """003-R190: a past prompt is rebuilt byte for byte, alone and in a walk over all turns."""
    from ctxmgr.core.history.reading import read_chat, read_prompts  # noqa: PLC0415

    session = await client.start("s1", system_prompt="Be careful.")
    sent = []
    for number, policy in enumerate([None, "plain", None, "economy", None, None]):
        await read_file(session, f"{CALL}{number}")
        sent.append(await session.render(f"turn {number}", policy=policy))
        await session.end_turn("Good.")
        (tmp_path / "project" / "a.py").write_text(f"A = {number}\n", encoding="utf-8")

    for number, text in enumerate(sent):
        assert (await client.prompt_as_of("s1", turn=2 * number + 2)).text() == text
    chat = await read_chat(client.store, "s1")
    walked = await read_prompts(client.store, chat, first=1, last=chat.turn_count)
    prompts = list(walked.prompts(count=len))
    assert len(prompts) == 12
    names = [policy_name(record) for record, _ in prompts]
    assert names[1::2] == ["compact", None, "compact", "economy", "compact", "compact"]


hashes = st.integers(0, 40).map(lambda number: sha256(str(number % 37).encode()))
alike = st.integers(0, 40).map(lambda number: "ab" * 5 + sha256(str(number).encode())[10:])
ids = st.one_of(hashes, alike, st.text("ab:_1", min_size=1, max_size=20))


@given(st.lists(ids, unique=True, max_size=40))
def test_short_ids_are_unique_and_never_change(object_ids: list[str]) -> None:
    """An agent may use an id that an earlier prompt showed."""
    shorts = short_ids(object_ids)

    assert len(set(shorts.values())) == len(object_ids)
    for at, (object_id, short) in enumerate(shorts.items()):
        assert object_id.startswith(short)
        assert short == object_id or not any(
            earlier.startswith(short) for earlier in object_ids[:at]
        )
        assert short == object_id or len(short) >= HASH_LENGTH_MIN
        assert short_ids(object_ids[: at + 1])[object_id] == short or short in object_ids
    assert ID_LENGTH_MIN > HASH_LENGTH_MIN
