"""Recorded sessions of other harnesses: the fixtures hold one conversation in every format."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr import Incorrect
from ctxmgr.recordings import formats
from ctxmgr.recordings.formats import FORMATS, read_recording
from ctxmgr.recordings.recorder import RecordedCall, Recording

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.name for path in FIXTURES.iterdir())
WITH_USAGE = [name for name in NAMES if not name.startswith("openhands")]


def recording(name: str) -> Recording:
    return read_recording((FIXTURES / name).read_bytes())


def changed(name: str, old: str, new: str) -> bytes:
    text = (FIXTURES / name).read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new, 1).encode()


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_conversation(name: str) -> None:
    """Policies are compared on sessions of many harnesses, so they must be read alike."""
    first, second = recording(name).turns[:2]

    assert (first.user, second.user) == ("What does the server listen on?", "")
    assert first.parts[0] == "I look."
    assert second.parts == ("On port 8080.",)
    (call,) = first.calls
    assert "port = 8080" in str(call.output)
    assert not call.failed


@pytest.mark.parametrize("name", NAMES)
def test_the_format_is_detected_from_the_content(name: str) -> None:
    """People have files, not format names."""
    assert name.startswith(recording(name).format)


@pytest.mark.parametrize("name", WITH_USAGE)
def test_usage_means_the_same_in_every_format(name: str) -> None:
    """Some APIs include cached tokens in the prompt's tokens and some do not."""
    first, second = (turn.usage for turn in recording(name).turns[:2])

    assert first is not None
    assert second is not None
    assert (first.prompt_tokens, first.output_tokens) == (1203, 40)
    assert (second.prompt_tokens, second.cache_read_tokens, second.output_tokens) == (1265, 1200, 8)


@pytest.mark.parametrize("name", ["pi.jsonl", "claude-code.jsonl", "codex.jsonl", "openhands.json"])
def test_times_and_models_are_kept(name: str) -> None:
    """A cache belongs to a model and expires with time."""
    first = recording(name).turns[0]

    assert first.timestamp is not None
    assert 1_772_359_202_000 <= first.timestamp <= 1_772_359_203_000
    assert first.model in {"claude-sonnet-4-5", "claude-opus-4-5", "gpt-5-codex"}


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_parsed(name: str) -> None:
    """Some formats keep them as JSON text."""
    (call,) = recording(name).turns[0].calls

    assert isinstance(call.args, dict)
    assert "server.toml" in json.dumps(call.args)


@pytest.mark.parametrize("name", ["codex.jsonl", "openhands.json", "anthropic.json", "openai.json"])
def test_a_recorded_system_prompt_is_kept(name: str) -> None:
    """It starts every prompt, so a replay without it would be too cheap."""
    assert recording(name).system_prompt == "You are a coding agent."


def test_a_pi_session_is_read_along_its_last_branch() -> None:
    """An abandoned answer is in the file but not in the conversation."""
    read = recording("pi.jsonl")

    assert len(read.turns) == 2
    assert "abandoned" not in str([turn.parts for turn in read.turns])
    assert read.unanswered == "$ ls missing\nls: missing: no such file"


def test_an_answer_on_several_lines_is_one_turn() -> None:
    """Claude Code writes one line per block; read line by line, calls would be counted twice."""
    turns = recording("claude-code.jsonl").turns

    assert len(turns) == 2
    assert [type(part) for part in turns[0].parts] == [str, RecordedCall]
    assert [call.output for call in turns[0].calls] == ["port = 8080\n"]


def test_actions_of_one_reply_are_one_turn() -> None:
    """OpenHands records each tool call of an answer as a separate event."""
    events = json.loads((FIXTURES / "openhands.json").read_bytes())
    again = json.loads(json.dumps(events[3]))
    again["id"], again["tool_call_metadata"]["tool_call_id"] = 7, "toolu_2"

    read = read_recording(json.dumps([*events[:4], again, *events[4:]]).encode())

    assert len(read.turns) == 2
    assert len(read.turns[0].calls) == 2
    assert read.turns[0].parts.count("I look.") == 1


def test_a_call_without_a_result_has_no_output() -> None:
    """A session may be stopped while a tool runs."""
    lines = (FIXTURES / "codex.jsonl").read_bytes().splitlines()
    cut = b"\n".join(lines[:7])

    (turn,) = read_recording(cut).turns

    assert turn.calls[0].output is None


@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_request_may_end_with_a_line_break(ending: str, indent: int | None) -> None:
    """One object on one line is a request, not a file of one entry per line."""
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    text = json.dumps({"id": "r1", "messages": messages}, indent=indent) + ending
    for data in (text.encode(), b"\xef\xbb\xbf" + text.encode()):
        recording = read_recording(data)

        assert (recording.recorded_id, recording.turns[0].parts) == ("r1", ("hi",))


def test_a_large_file_is_not_copied_again_and_again() -> None:
    """It is read into memory once, and parsed line by line; a decoded copy may be four times it."""
    output = "\N{EM DASH}" * 30_000
    lines = [{"role": "user", "content": "go"}]
    for n in range(100):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        lines.append({"role": "assistant", "content": None, "tool_calls": [call]})
        lines.append({"role": "tool", "tool_call_id": f"c{n}", "content": output})
    data = b"\n".join(json.dumps(line, ensure_ascii=False).encode() for line in lines)
    tracemalloc.start()
    try:
        recording = read_recording(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(recording.turns) == 100
    assert peak < 1.3 * len(data), "the parsed values take two thirds of it, and are kept"


def test_messages_may_be_one_per_line() -> None:
    """Programs that append to a file write lines instead of an array."""
    messages = json.loads((FIXTURES / "openai.json").read_bytes())

    read = read_recording("\n".join(map(json.dumps, messages)).encode())

    assert read == recording("openai.json")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1"),
        (b"hello", "line 1"),
        (b'{"role": "user"}\n{"role": ', "line 2: invalid JSON"),
        (b'{"role": "user"}\n[1]', "line 2: an entry is an object"),
        (b'[{"role": "user"}, 7]', "entry 2: an entry is an object"),
        (b'[{"role": "user"},\n {"role" "user"}]', "line 2: invalid JSON"),
        (b'{"type": "user"}', r"\(pi, claude-code, codex, openhands, gemini, opencode, "),
        (b'{"role": "user", "content": "x"}', "no answer of a model"),
        (b'{"role": "user", "content": "\xff"}', "line 1: invalid UTF-8"),
        (b'[{"role": "emperor", "content": "x"}]', "entry 1: .*unknown role 'emperor'"),
        (changed("pi.jsonl", '"toolCallId":"toolu_1",', ""), "line 6: .*'toolCallId'"),
        (changed("pi.jsonl", '"toolCallId":"toolu_1"', '"toolCallId":"x"'),
         "line 6: .*'x', which does not precede it"),
        (changed("codex.jsonl", '"call_id":"call_1","arg', '"arg'), "line 7: .*'call_id' of codex"),
        (changed("claude-code.jsonl", '"content":[{"type":"text","text":"I', '"content":[7,{"x":"'),
         "line 3: invalid in claude-code"),
        (changed("openhands.json", '"tool_call_id": "toolu_1", "total', '"total'), "entry 4: "),
        (changed("pi.jsonl", "1772359203000", '"soon"'), "line 5: .*Invalid isoformat"),
    ],
)  # fmt: skip
def test_an_error_names_the_line_or_entry(data: bytes, message: str) -> None:
    """In a file of ten thousand lines, an error without a position is useless."""
    with pytest.raises(Incorrect, match=message):
        read_recording(data)


def test_an_unknown_format_is_rejected_with_the_known_ones() -> None:
    """A mistyped name is corrected by the list of names."""
    with pytest.raises(
        Incorrect, match=r"unknown recording format 'vim' \(one of: pi, claude-code"
    ):
        read_recording(b"{}", form="vim")


@given(
    st.sampled_from(sorted(FORMATS)),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "role", "content", "message", "payload", "id", "action"]),
                inner | st.sampled_from(["user", "assistant", "message", "response_item", "tool"]),
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
)
def test_any_json_is_read_or_rejected(form: str, value: object) -> None:
    """Formats change with every release of a harness; that must never end in a traceback."""
    try:
        read = read_recording(json.dumps([value]).encode(), form=form)
    except Incorrect:
        return

    assert read.turns


def test_a_file_of_too_many_entries_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of tiny lines would take gigabytes of memory."""
    monkeypatch.setattr(formats, "ENTRIES_MAX", 3)

    with pytest.raises(Incorrect, match="line 4: a recording has at most 3 entries"):
        read_recording(b'{"role": "user"}\n' * 4)
    with pytest.raises(Incorrect, match="at most 3 entries, not 4"):
        read_recording(json.dumps([{"role": "user"}] * 4).encode())


def test_a_lone_surrogate_does_not_prevent_reading() -> None:
    """Models and tools write them, and the fast parser refuses them."""
    lines = b'{"role": "user", "content": "\\ud800"}\n{"role": "assistant", "content": "hi"}'

    assert read_recording(lines).turns[0].user == "\ud800"
