"""Recorded sessions in the common form, read as turns."""

import json
from pathlib import Path

import pytest

from ctxmgr.bench.economy.sessions import ReplayedCall, read_folder, read_session
from ctxmgr.errors import Incorrect
from tests.bench.economy.recordings import call, folder, message, session


def test_calls_are_read_from_lines_of_json_and_find_their_outputs() -> None:
    """An answer asks for several calls, and not all of them are run."""
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
    """In JSON text an escaped newline would glue its letter to the next name."""
    text = '{"name": "book", "arguments": "{\\"user\\": \\"mia\\"}"}'

    turns = read_session({"id": "x", "messages": [message("assistant", text)]}).turns

    assert turns[0].parts == (ReplayedCall(tool="book", args={"user": "mia"}),)


def test_a_fenced_command_is_a_call_where_an_output_follows() -> None:
    """Some harnesses have no calls but a text with a block in it."""
    text = "THOUGHT: list them\n\n```bash\nls -R\n```"

    ran = read_session({"id": "x", "messages": [message("assistant", text), message("tool", "a")]})
    prose = read_session({"id": "x", "messages": [message("assistant", text)]})

    call_made = ReplayedCall(tool="bash", args={"command": "ls -R"}, output="a")
    assert ran.turns[0].parts == ("THOUGHT: list them", call_made)
    assert prose.turns[0].parts == (text,)


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    """A folder may hold the same session in its harness's own format, too: once is enough."""
    folder(tmp_path, ours=[session()], short=[session(calls=0)])
    (tmp_path / "ours.raw.jsonl").write_text('{"type": "session"}\n', encoding="utf-8")

    found = read_folder(tmp_path)

    assert {name: len(sessions) for name, sessions in found.items()} == {"ours": 1}


def test_a_harnesss_own_file_is_replayed_too(tmp_path: Path) -> None:
    """People have recordings of their harness, and nothing in our common form."""
    asked = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
    given = {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}
    messages = [{"role": "user", "content": "go"}]
    for _ in range(3):
        messages.append(
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, asked]}
        )
        messages.append({"role": "user", "content": [given]})
    (tmp_path / "mine.json").write_text(json.dumps(messages), encoding="utf-8")

    ((name, (found,)),) = read_folder(tmp_path).items()

    assert name == "anthropic: mine"
    assert len(found.turns) == 3
    assert found.turns[0].parts == (
        "I look.",
        ReplayedCall(tool="ls", args={"path": "."}, output="a.py"),
    )
    assert found.turns[0].raw == 'I look.\n{"tool": "ls", "args": {"path": "."}}'


def test_a_file_in_no_known_format_is_named(tmp_path: Path) -> None:
    """Left out in silence it would look as if it had been replayed."""
    (tmp_path / "odd.json").write_text('[{"kind": "nobody knows"}]', encoding="utf-8")

    with pytest.raises(Incorrect, match=r"odd.json: the recording is in none of the known formats"):
        read_folder(tmp_path)


def test_a_line_that_is_no_session_is_named(tmp_path: Path) -> None:
    """Whoever made the file must find the place."""
    (tmp_path / "bad.jsonl").write_text('{"id": 1, "messages": [{"role": "user"}]}\n', "utf-8")

    with pytest.raises(Incorrect, match=r"bad.jsonl, line 1: not a recorded session: 'text'"):
        read_folder(tmp_path)


def test_a_folder_without_sessions_is_an_error(tmp_path: Path) -> None:
    """A wrong path must not look like a good result."""
    with pytest.raises(Incorrect, match="has no recorded sessions"):
        read_folder(tmp_path)
