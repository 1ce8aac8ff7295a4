"""Prompts rebuilt from their records."""

import json
from dataclasses import dataclass, replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from ctxmgr.core.history.rebuild import PromptWalk
from ctxmgr.core.history.shown_versions import PromptVersion
from ctxmgr.core.history.turn_records import ShownVersion, TurnRecord
from ctxmgr.core.objects.answers import CallRef, text_part
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.session_record import SystemPrompt
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.errors import Corrupt, HashMismatch, Incorrect
from tests.core.builders.values import texts

PROMPT: Final = SystemPrompt(session_id="s1", content="Be careful.")


@dataclass
class Sent:
    """A prompt that was sent, its record, and the stored versions it refers to."""

    context: Context
    record: TurnRecord
    versions: dict[tuple[str, str], PromptVersion]
    chat: Chat


@st.composite
def shown_files(draw: st.DrawFn) -> tuple[File, FileState]:
    name = draw(st.sampled_from(["a.py", "b", "c.md"]))
    source = FilesystemSource(filesystem_id="host", path=f"/{name}")
    text = File.read(source, data=draw(texts).encode())
    return draw(
        st.sampled_from(
            [
                (File.stub(source), FileState.STUB),
                (text, FileState.LIVE),
                (text.deleted(), FileState.DELETED),
                (File.read(source, data=b"\xff"), FileState.NONTEXT),
            ]
        )
    )


@st.composite
def sent_prompts(draw: st.DrawFn) -> Sent:
    files = draw(st.lists(shown_files(), unique_by=lambda file: file[0].object_id, max_size=3))
    calls = [
        ToolCall(
            toolcall_id=f"call_{n}",
            tool="bash",
            args={},
            status=draw(st.sampled_from(["ok", "fail"])),
            chat_ref="chat:s1",
            content=draw(st.none() | texts),
        )
        for n in range(draw(st.integers(0, 3)))
    ]
    earlier = Chat(
        session_id="s1",
        turns=tuple(
            Turn(
                user=draw(texts),
                assistant=(text_part(draw(texts)),),
                toolcall_ids=(call.object_id,),
            )
            for call in calls
        ),
    )
    later = earlier.append(Turn(user=draw(texts), assistant=()))
    active = [version for version in (*files, *calls) if draw(st.booleans())]
    return _sent(files, calls, earlier, later, active)


def _sent(
    files: list[tuple[File, FileState]],
    calls: list[ToolCall],
    earlier: Chat,
    later: Chat,
    active: list[ToolCall | tuple[File, FileState]],
) -> Sent:
    refs = {call.object_id: CallRef.of(call) for call in calls}
    entries = [PoolEntry.of_file(file, display_path="/shown", state=state) for file, state in files]
    context = Context(
        session_id="s1",
        system_prompt=PROMPT.content,
        pool=Pool(entries).add(map(PoolEntry.of_toolcall, calls)),
        transcript=Transcript(ShownTurn.of(turn, calls=refs) for turn in earlier.turns),
        user=later.turns[-1].user,
        active=tuple(
            ActiveBlock.of_toolcall(ref)
            if isinstance(ref, ToolCall)
            else ActiveBlock.of_file(ref[0], state=ref[1])
            for ref in active
        ),
        contributions=(Contribution(slot=Section.STABLE, name="memory", text="remember"),),
    )
    noted = [ShownVersion.of(file, display_path="/shown", state=state) for file, state in files]
    record = TurnRecord(
        session="s1",
        n=later.turn_count,
        prompt_hash=context.prompt_hash(),
        section_hashes=context.section_hashes(),
        snapshot=later.turn_count,
        shown=(*map(ShownVersion.of, (PROMPT, earlier)), *noted, *map(ShownVersion.of, calls)),
        active=tuple(block.object_id for block in context.active),
        contributions=context.contributions,
    )
    stored = (PROMPT, *(file for file, _ in files), *calls)
    versions = {
        (version.object_id, version.object_hash): PromptVersion.from_document(to_document(version))
        for version in stored
    }
    return Sent(context, record, versions, later)


def _rebuilt(sent: Sent, record: TurnRecord | None = None) -> Context:
    walk = PromptWalk(sent.chat.turns, sent.versions, count=len)
    walk.join(record or sent.record)
    walk.build()
    return walk.context()


def _example() -> Sent:
    file = File.read(FilesystemSource(filesystem_id="host", path="/a"), data=b"text")
    earlier = Chat(session_id="s1")
    later = earlier.append(Turn(user="hi", assistant=()))
    return _sent([(file, FileState.LIVE)], [], earlier, later, [(file, FileState.LIVE)])


@given(sent_prompts())
def test_a_prompt_is_rebuilt_from_its_record(sent: Sent) -> None:
    """003-R005, PG-09: byte for byte, without the machine that sent it."""
    carried = TurnRecord.from_document(json.loads(json.dumps(sent.record.to_document())))

    again = _rebuilt(sent, carried)

    assert again.text() == sent.context.text()


@given(sent_prompts(), texts)
def test_later_turns_do_not_change_earlier_prompts(sent: Sent, said: str) -> None:
    """003-R005: the current chat is enough to rebuild every earlier prompt."""
    sent.chat = sent.chat.append(Turn(user=said, assistant=(text_part(said),)))

    assert _rebuilt(sent).text() == sent.context.text()


def test_a_wrong_version_is_detected() -> None:
    """003-R005: a version that was not shown must not appear."""
    sent = _example()
    key = (PROMPT.object_id, PROMPT.object_hash)
    sent.versions[key] = replace(sent.versions[key], content="Be quick.")

    with pytest.raises(HashMismatch, match="prompt_hash"):
        _rebuilt(sent)


def test_a_wrong_chat_is_detected() -> None:
    """003-R005: including parts that only the structured forms show."""
    sent = _example()
    prompt, chat, file = sent.record.shown
    sent.record = replace(
        sent.record, shown=(prompt, replace(chat, object_hash=prompt.object_hash), file)
    )

    with pytest.raises(HashMismatch, match="chat:s1"):
        _rebuilt(sent)


def test_a_prompt_that_differs_from_the_one_sent_is_detected() -> None:
    """003-R005: the hash is the proof."""
    sent = _example()

    with pytest.raises(HashMismatch, match="prompt_hash"):
        _rebuilt(sent, replace(sent.record, active=()))


@pytest.mark.parametrize("missing", ["version", "chat", "path", "active"])
def test_the_error_names_what_is_missing(missing: str) -> None:
    """003-R005, PG-18: a prompt with a gap would be a wrong answer."""
    sent = _example()
    prompt, chat, file = sent.record.shown
    match missing:
        case "version":
            del sent.versions[file.object_id, file.object_hash]
        case "chat":
            sent.record = replace(sent.record, shown=(prompt, file))
        case "path":
            sent.record = replace(
                sent.record, shown=(prompt, chat, replace(file, display_path=None))
            )
        case _:
            sent.record = replace(sent.record, active=("unknown",))

    with pytest.raises(Corrupt):
        _rebuilt(sent)


def test_a_prompt_of_another_renderer_is_refused() -> None:
    """003-A31: a prompt under a policy does not have the four plain sections."""
    sent = _example()

    for other in (
        {"policy": {"name": "economy"}},
        {"renderer": "plain/9"},
        {"n": 2, "snapshot": 2},
    ):
        with pytest.raises(Incorrect):
            _rebuilt(sent, replace(sent.record, **other))
