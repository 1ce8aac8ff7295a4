"""Recorded sessions in the common form, parsed into turns."""

import json
from pathlib import Path

import pytest

from ctxmgr.bench.economy.sessions import ReplayedCall, read_folder, read_session
from ctxmgr.errors import Incorrect
from tests.bench.economy.recordings import call, folder, message, session


def test_calls_are_parsed_from_json_lines_and_matched_with_outputs() -> None:
    """An answer may contain several calls, of which not all are run."""
    asked = "Look.\n" + call("read", path="a") + "\n" + call("read", path="b")
    messages = [message("user", "go"), message("assistant", asked), message("tool", "text of a")]

    (turn,) = read_session({"id": "x", "messages": messages}).turns

    assert turn.user == "go"
    assert turn.parts == (
        "Look.",
        ReplayedCall(tool="read", args={"path": "a"}, output="text of a"),
        ReplayedCall(tool="read", args={"path": "b"}, output=None),
    )


def test_arguments_in_a_string_are_decoded() -> None:
    """In JSON text an escaped newline would join its letter with the next name."""
    text = '{"name": "book", "arguments": "{\\"user\\": \\"mia\\"}"}'

    turns = read_session({"id": "x", "messages": [message("assistant", text)]}).turns

    assert turns[0].parts == (ReplayedCall(tool="book", args={"user": "mia"}),)


def test_a_fenced_command_followed_by_an_output_is_a_call() -> None:
    """Some harnesses write calls as fenced blocks in text."""
    text = "THOUGHT: list them\n\n```bash\nls -R\n```"

    ran = read_session({"id": "x", "messages": [message("assistant", text), message("tool", "a")]})
    prose = read_session({"id": "x", "messages": [message("assistant", text)]})

    call_made = ReplayedCall(tool="bash", args={"command": "ls -R"}, output="a")
    assert ran.turns[0].parts == ("THOUGHT: list them", call_made)
    assert prose.turns[0].parts == (text,)


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    """A folder may also hold the same session in its harness's format; it counts once."""
    folder(tmp_path, ours=[session()], short=[session(calls=0)])
    (tmp_path / "ours.raw.jsonl").write_text('{"type": "session"}\n', encoding="utf-8")

    recordings = read_folder(tmp_path)

    assert {name: len(sessions) for name, sessions in recordings.items()} == {"ours": 1}


def test_a_file_in_a_harnesss_format_is_replayed_too(tmp_path: Path) -> None:
    """Users have recordings of their harness, not files in our common form."""
    asked = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
    given = {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}
    messages = [{"role": "user", "content": "go"}]
    for _ in range(3):
        messages.append(
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, asked]}
        )
        messages.append({"role": "user", "content": [given]})
    (tmp_path / "mine.json").write_text(json.dumps(messages), encoding="utf-8")

    ((name, (recorded,)),) = read_folder(tmp_path).items()

    assert name == "anthropic: mine"
    assert len(recorded.turns) == 3
    assert recorded.turns[0].parts == (
        "I look.",
        ReplayedCall(tool="ls", args={"path": "."}, output="a.py"),
    )
    assert recorded.turns[0].raw == 'I look.\n{"tool": "ls", "args": {"path": "."}}'


def test_the_error_for_an_unknown_format_names_the_file(tmp_path: Path) -> None:
    """A file that is skipped silently would seem to have been replayed."""
    (tmp_path / "odd.json").write_text('[{"kind": "nobody knows"}]', encoding="utf-8")

    with pytest.raises(Incorrect, match=r"odd.json: the recording is in none of the known formats"):
        read_folder(tmp_path)


def test_the_error_for_an_invalid_line_names_it(tmp_path: Path) -> None:
    """The author of the file must be able to find it."""
    (tmp_path / "bad.jsonl").write_text('{"id": 1, "messages": [{"role": "user"}]}\n', "utf-8")

    with pytest.raises(Incorrect, match=r"bad.jsonl, line 1: not a recorded session: 'text'"):
        read_folder(tmp_path)


def test_a_folder_without_sessions_is_an_error(tmp_path: Path) -> None:
    """A wrong path must not look like a good result."""
    with pytest.raises(Incorrect, match="has no recorded sessions"):
        read_folder(tmp_path)
