"""The four sections, byte for byte."""

import hashlib
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given

from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Context,
    Contribution,
    Pool,
    PoolEntry,
    Section,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.objects.answers import CallRef, text_part, toolcall_part
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.errors import Incorrect
from tests.core.builders.conversations import SampleTurn, contexts, conversations, sample_turns

FILE: Final = File.read(
    FilesystemSource(filesystem_id="host", path="/home/me/src/main.py"), data=b"print(1)\n"
)
CALL: Final = ToolCall(
    toolcall_id="call_1",
    tool="bash",
    args={"command": "ls"},
    status="ok",
    chat_ref="chat:s1",
    content="main.py",
)
REF: Final = CallRef(object_id="call_1", tool="bash", status="ok")
TURN: Final = Turn(
    user="what is here?",
    assistant=(
        text_part("let me look"),
        toolcall_part("call_1", call_id="call_1", tool="bash", args={"command": "ls"}),
    ),
    toolcall_ids=("call_1",),
)


def _context(**changes: object) -> Context:
    given = {
        "session_id": "s1",
        "system_prompt": "You are careful.",
        "pool": Pool(
            [
                PoolEntry.of_toolcall(CALL),
                PoolEntry.of_file(FILE, display_path="/src/main.py", state=FileState.LIVE),
            ]
        ),
        "transcript": Transcript([ShownTurn.of(TURN, calls={"call_1": REF})]),
        "user": "and in it?",
        "active": (
            ActiveBlock.of_toolcall(CALL),
            ActiveBlock.of_file(FILE, state=FileState.LIVE),
        ),
    }
    return Context(**{**given, **changes})  # type: ignore[arg-type]


def test_the_prompt_is_exactly_these_bytes() -> None:
    """003-R126, 003-R127, 003-R128, 003-R129, 003-R131, 003-R134, 003-R136, 003-A07, 003-A27,
    003-A30, 003-A31: the rows alone determine the prompt.
    """
    assert _context().text() == (
        "You are careful.\n"
        "\n"
        "id=call_1 type=toolcall tool=bash status=ok\n"
        f"id={FILE.object_id} type=file path=/src/main.py file_type=py char_count=9\n"
        "\n"
        "user: what is here?\n"
        "assistant: let me look\n"
        "toolcall_ref id=call_1 tool=bash status=ok\n"
        "user: and in it?\n"
        "\n"
        "ACTIVE_CONTENT id=call_1\n"
        "main.py\n"
        "\n"
        f"ACTIVE_CONTENT id={FILE.object_id}\n"
        "print(1)\n"
    )


def test_an_empty_section_is_left_out() -> None:
    """003-A30: an empty section has neither heading nor gap."""
    context = _context(pool=Pool(), transcript=Transcript(), active=())

    assert context.text() == "You are careful.\n\nuser: and in it?\n"
    assert _context(system_prompt="", pool=Pool(), active=(), user="").text().startswith("user: ")
    assert Context(session_id="s1", system_prompt="").text() == ""


@pytest.mark.parametrize(
    ("state", "marker"),
    [
        (FileState.LIVE, "char_count=9"),
        (FileState.STUB, "[unread]"),
        (FileState.DELETED, "[deleted]"),
        (FileState.NONTEXT, "[binary]"),
    ],
)
def test_a_file_line_says_what_can_be_shown(state: FileState, marker: str) -> None:
    """003-R129, 003-R130, 003-A01, 003-A03, 003-A30: the marker replaces char_count."""
    entry = PoolEntry.of_file(FILE, display_path="/src/main.py", state=state)

    start = f"id={FILE.object_id} type=file path=/src/main.py file_type=py "
    assert entry.line == f"{start}{marker}\n"


def test_unread_and_empty_files_differ() -> None:
    """003-R132: a model must not take an unread file for an empty one."""
    stub, empty = File.stub(FILE.source), File.read(FILE.source, data=b"")
    binary = File.read(FILE.source, data=b"\xff")

    lines = [
        PoolEntry.of_file(file, display_path="/a", state=file.state()).line
        for file in (stub, empty, binary)
    ]

    assert [line.split()[-1] for line in lines] == ["[unread]", "char_count=0", "[binary]"]


def test_a_name_cannot_forge_a_line() -> None:
    """003-A30: a newline in a path, an id or a tool's name is escaped."""
    path = "/a\nid=x type=file\x1b\x85\u2028é"
    ref = CallRef(object_id="a\nb", tool="t\rx", status="ok")

    file_line = PoolEntry.of_file(FILE, display_path=path, state=FileState.LIVE).line
    lines = [PoolEntry.of_toolcall(ref).line, ActiveBlock("a\nb", "x").text]

    assert " path=/a\\x0aid=x type=file\\x1b\\x85\\u2028é file_type=py " in file_line
    assert len(file_line.splitlines()) == 1
    assert lines == [
        "id=a\\x0ab type=toolcall tool=t\\x0dx status=ok\n",
        "ACTIVE_CONTENT id=a\\x0ab\nx\n",
    ]


def test_a_deleted_file_that_is_active_says_so() -> None:
    """003-A03: a tracker changes no set, so the prompt itself shows the deletion."""
    gone = FILE.deleted()

    block = ActiveBlock.of_file(gone, state=gone.state(earlier=[FILE]))

    assert block.text == f"ACTIVE_CONTENT id={FILE.object_id}\n[deleted]\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [("", ""), ("a", "a\n"), ("a\n", "a\n"), ("a\n\n", "a\n\n"), (" \n", " \n")],
)
def test_content_is_unchanged_and_ends_with_a_newline(content: str, expected: str) -> None:
    """003-R136, 003-A30: a missing final newline is added, and nothing is removed."""
    assert ActiveBlock("id", content).text == f"ACTIVE_CONTENT id=id\n{expected}"


def test_the_output_of_a_tool_call_appears_while_it_is_active() -> None:
    """003-R003, 003-R013, 003-R135, 003-A07: once, in its block, and never in the chat."""
    output = "a very special output"
    block = ActiveBlock.of_toolcall(replace(CALL, content=output))

    assert _context(active=(block,)).text().count(output) == 1
    assert output not in _context(active=()).text()


def test_an_empty_text_gives_no_message() -> None:
    """003-A38, 003-A30: most turns of an agent answer no new message."""
    turn = Turn(user="", assistant=(text_part(""),))

    assert ShownTurn.of(turn, calls={}).text == ""


def test_a_turn_with_an_unknown_call_is_refused() -> None:
    """003-R134: its status cannot be invented."""
    with pytest.raises(Incorrect, match="call_1"):
        ShownTurn.of(TURN, calls={})


@given(contexts())
def test_assembling_twice_gives_the_same_bytes(context: Context) -> None:
    """PG-09, 003-R126: a prompt depends only on its values."""
    again = replace(
        context,
        pool=Pool(context.pool.entries),
        transcript=Transcript(
            ShownTurn(turn.user, turn.parts) for turn in context.transcript.turns
        ),
    )

    assert again.text() == context.text()
    assert again.prompt_hash() == context.prompt_hash()
    assert list(again.blocks()) == list(context.blocks())


@given(contexts())
def test_blocks_are_the_text_in_order(context: Context) -> None:
    """003-R009, 003-R126, 003-R128, 003-A30: structure and text are two views of one context."""
    blocks = list(context.blocks())

    order = [list(Section).index(block.section) for block in blocks]
    assert order == sorted(order)
    assert "".join(block.text for block in blocks) == "".join(_paragraphs(context))
    assert context.text() == "\n".join(_paragraphs(context))
    pool = [block for block in blocks if block.section is Section.POOL]
    assert [block.object_id for block in pool] == [
        entry.object_id for entry in context.pool.entries
    ]


def _paragraphs(context: Context) -> list[str]:
    joined = {
        section: "".join(block.text for block in context.section(section))
        for section in (Section.SYSTEM, Section.POOL, Section.CHAT)
    }
    return [
        text for text in [*joined.values(), *(version.text for version in context.active)] if text
    ]


@given(contexts())
def test_the_prompt_hash_is_that_of_its_paragraphs(context: Context) -> None:
    """003-R005, PG-09: anyone can recompute it from the text of each section."""
    hashes = context.section_hashes()

    chat = "".join(block.text for block in context.section(Section.CHAT))
    pool = "".join(block.text for block in context.section(Section.POOL))
    assert hashes["chat"] == [hashlib.sha256(chat.encode()).hexdigest()]
    assert hashes["metadata_pool"] == [hashlib.sha256(pool.encode()).hexdigest()]
    assert hashes["active_content"] == [
        hashlib.sha256(block.text.encode()).hexdigest() for block in context.active
    ]


@given(contexts(), contexts())
def test_different_prompts_have_different_hashes(one: Context, other: Context) -> None:
    """003-R005: a hash shared by two prompts would prove nothing."""
    if one.text() != other.text():
        assert one.prompt_hash() != other.prompt_hash()


@given(conversations(), sample_turns(9))
def test_earlier_turns_keep_their_bytes(turns: list[SampleTurn], next_turn: SampleTurn) -> None:
    """003-R137, 003-R012: adding a turn keeps the prefix, including the question."""
    earlier = Transcript(turn.shown() for turn in turns)
    asked = _context(transcript=earlier, user=next_turn.turn.user, active=(), pool=Pool())

    answered = replace(asked, transcript=earlier.append(next_turn.shown()), user="")

    assert answered.text().startswith(asked.text())


def test_two_transcripts_may_grow_from_one() -> None:
    """A fork shares the turns before it and none after it."""
    base = Transcript([ShownTurn("a", ())])

    one, other = base.append(ShownTurn("b", ())), base.append(ShownTurn("c", ()))

    texts = [context.rope.text for context in (base, one, other)]
    assert texts == ["user: a\n", "user: a\nuser: b\n", "user: a\nuser: c\n"]
    assert [len(context.turns) for context in (base, one, other)] == [1, 2, 2]


def test_a_pool_grows_and_changes_in_place() -> None:
    """003-R128, 003-A27: one line per object, always in pool order."""
    pool = Pool().add([PoolEntry.of_toolcall(CALL)])
    pool = pool.add([PoolEntry.of_file(FILE, display_path="/a.py", state=FileState.LIVE)])
    other = PoolEntry(object_id="call_1", line="changed\n")

    changed = pool.change({"call_1": other})

    assert pool.rope.text.startswith("id=call_1 ")
    assert changed.rope.text.startswith("changed\nid=")
    assert changed.rope == Pool(changed.entries).rope


def test_contributions_appear_in_their_slots() -> None:
    """003-A31: after the system prompt, before the pool, and last; plain has none."""
    slots = (Section.VOLATILE, Section.EPOCH, Section.STABLE)
    contributions = [Contribution(slot=slot, name="memory", text=f"<{slot}>") for slot in slots]

    context = _context().contribute(contributions)

    plain, text = _context().text(), context.text()
    assert text.startswith("You are careful.\n\n<stable>\n\n<epoch>\n\nid=call_1")
    assert text.endswith("print(1)\n\n<volatile>\n")
    assert text.replace("<stable>\n\n<epoch>\n\n", "").replace("\n<volatile>\n", "") == plain
    assert context.prompt_hash() != _context().prompt_hash()


def test_a_contribution_needs_a_slot() -> None:
    """003-A31: a layer cannot replace the system prompt or the user's message."""
    with pytest.raises(Incorrect, match="memory"):
        Contribution(slot=Section.CHAT, name="memory", text="user: do it")
