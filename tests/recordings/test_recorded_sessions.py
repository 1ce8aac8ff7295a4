"""Sessions that real agents recorded, read and compared with what happened in them.

The files in ``recorded`` were written by the versions in their names, run against a scripted model;
prompts of the vendors were shortened afterwards.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.recordings.formats import read_recording
from ctxmgr.recordings.recorder import RecordedCall, Recording
from tests.components import SHARED, need

RECORDED = Path(__file__).parent / "recorded"
CLAUDE = "claude-code-2.1.326.jsonl"
SUBAGENT = "claude-code-2.1.326-subagent.jsonl"
CODEX = "codex-0.169.0.jsonl"
GEMINI = "gemini-0.61.0.jsonl"
OPENCODE = "opencode-1.18.33.json"
PI = "pi-0.74.2.jsonl"


def recording(name: str) -> Recording:
    return read_recording(RECORDED.joinpath(name).read_bytes())


def flow(read: Recording) -> list[str]:
    """What happened, in order: user texts (their first line), answers, calls with their outcome."""
    found: list[str] = []
    for turn in read.turns:
        found += [f"user {turn.user.splitlines()[0]}"] if turn.user else []
        for part in turn.parts:
            if isinstance(part, RecordedCall):
                found.append(f"{part.tool} {'fail' if part.failed else 'ok'}")
            else:
                found.append(part)
    return found


def test_claude_code_is_read_along_its_branch_and_across_a_compaction() -> None:
    """What was rewound was not said; a summary is not the user's words, and neither is /compact."""
    read = recording(CLAUDE)

    assert flow(read) == [
        "user What does the server listen on? See @notes.md",
        "I look.",
        "Bash ok",
        "Read ok",
        "Now one that fails.",
        "Bash fail",
        "A helper shall look.",
        "Task ok",
        "On port 8080.",
        "user <task-notification>",
        "A right thing.",
        "user And after that?",
        "Nothing more.",
    ]
    for left_out in ("wrong thing", "ABANDONED", "SUMMARY OF EARLIER TURNS", "/compact"):
        assert left_out in RECORDED.joinpath(CLAUDE).read_text(encoding="utf-8")
        assert left_out not in repr([(turn.user, turn.parts) for turn in read.turns])


def test_an_attached_file_is_what_the_model_saw() -> None:
    """``@notes.md`` put the file into the prompt; without it the answer cannot be understood."""
    assert "The host is alpha." in recording(CLAUDE).turns[0].user


def test_results_of_parallel_calls_belong_to_their_calls() -> None:
    """They are siblings in the tree: the branch alone would lose one."""
    bash, read = recording(CLAUDE).turns[0].calls

    assert bash.output == "port = 8080"
    assert read.output is not None
    assert read.output.startswith("1\tport = 8080")
    assert bash.timestamp != read.timestamp


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        (CLAUDE, "You are a coding agent.\n\nBe brief."),
        (CODEX, "You are a coding agent."),
        (GEMINI, "<session_context>"),
    ],
)
def test_the_system_prompt_is_found(name: str, prompt: str) -> None:
    """Claude Code records it as the shape of its requests."""
    assert recording(name).system_prompt.startswith(prompt)


def test_a_snapshot_of_the_prompt_is_read_if_requests_were_not_recorded() -> None:
    """Between the versions that recorded nothing and those that record requests."""
    lines = RECORDED.joinpath(CLAUDE).read_text(encoding="utf-8").splitlines()
    without = "\n".join(line for line in lines if '"api-request-shape"' not in line)

    prompt = read_recording(without.encode()).system_prompt

    assert prompt.startswith("You are a coding agent.\n\n<system-reminder>")
    assert prompt.count("You are a coding agent.") == 1


def test_a_subagent_is_a_session_of_its_own() -> None:
    """It was refused as holding no answer of a model."""
    read, main = recording(SUBAGENT), recording(CLAUDE)

    assert flow(read)[:3] == ["user SUBAGENT-WORK: count the files", "I count.", "Bash ok"]
    assert read.parent == main.recorded_id
    assert read.recorded_id == f"{main.recorded_id}.agent-a983386a8d79d3925"


def test_codex_reports_failures_and_leaves_out_the_summary() -> None:
    """An exit code is in the text of the output; a summary and the next answer are not one turn."""
    read = recording(CODEX)

    assert flow(read) == [
        "user What does the server listen on?",
        "I look.",
        "exec_command ok",
        "Now one that fails.",
        "exec_command fail",
        "exec_command ok",
        "apply_patch fail",
        "On port 8080.",
        "user And after that?",
        "After the compaction.",
    ]
    assert [len(turn.parts) for turn in read.turns] == [2, 3, 1, 1, 1]
    assert all(turn.usage and turn.usage.prompt_tokens == 150 for turn in read.turns)


def codex_with(*items: dict[str, Any]) -> Recording:
    lines = RECORDED.joinpath(CODEX).read_text(encoding="utf-8").splitlines()
    added = [json.dumps({"type": "response_item", "payload": item}) for item in items]
    return read_recording("\n".join([*lines, *added]).encode())


def test_the_namespace_of_a_tool_is_kept() -> None:
    """Two servers may have a tool of the same name."""
    call = {"type": "function_call", "call_id": "c1", "arguments": "{}"}
    read = codex_with({**call, "name": "recall", "namespace": "mcp__ctxmgr"})

    assert read.turns[-1].calls[0].tool == "mcp__ctxmgr__recall"


def test_what_a_hook_of_codex_added_belongs_to_its_turn() -> None:
    """It became the user's words, one turn later."""
    hook = [{"type": "input_text", "text": "Remember the tests."}]
    answer = [{"type": "output_text", "text": "Yes."}]
    read = codex_with(
        {"type": "message", "role": "developer", "content": hook},
        {"type": "message", "role": "assistant", "content": answer},
    )

    assert read.turns[-1].user == "<developer>\nRemember the tests.\n</developer>"
    assert read.turns[-1].parts == ("Yes.",)


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("Chunk ID: 1\nProcess exited with code 7\nOutput:\nx", True),
        ("Chunk ID: 1\nProcess exited with code 0\nOutput:\nProcess exited with code 7", False),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nx", True),
        ("the log says:\nProcess exited with code 7\n", False),
    ],
)
def test_an_exit_code_is_read_where_codex_writes_it(output: str, *, failed: bool) -> None:
    """What a command prints is not trusted to say how it ended."""
    call = {"type": "function_call", "call_id": "c1", "arguments": "{}", "name": "exec_command"}
    result = {"type": "function_call_output", "call_id": "c1", "output": output}

    assert codex_with(call, result).turns[-1].calls[0].failed is failed


def test_gemini_keeps_what_was_recorded_before_a_resume() -> None:
    """Resuming lists all messages again, without statuses and with other times."""
    read = recording(GEMINI)

    assert flow(read) == [
        "user What does the server listen on? See @notes.md",
        "I look.",
        "run_shell_command ok",
        "read_file ok",
        "Now one that fails.",
        "run_shell_command fail",
        "read_file fail",
        "On port 8080.",
        "user And the host?",
        "Second answer.",
    ]
    assert "The host is alpha." in read.turns[0].user
    assert read.turns[0].usage is not None
    assert (read.turns[0].usage.prompt_tokens, read.turns[0].usage.cache_read_tokens) == (150, 100)


def test_gemini_forgets_what_was_rewound() -> None:
    """A rewound message was taken back by the user."""
    data = RECORDED.joinpath(GEMINI).read_text(encoding="utf-8")
    first = json.loads(data.splitlines()[-4])  # "And the host?"

    read = read_recording((data + json.dumps({"$rewindTo": first["id"]})).encode())

    assert flow(read)[-1] == "On port 8080."


def test_opencode_is_read_from_its_export() -> None:
    """Its own database holds the same messages and parts."""
    read = recording(OPENCODE)

    assert flow(read) == [
        "user What does the server listen on? See @notes.md",
        "I look.",
        "bash ok",
        "read ok",
        "Now one that fails.",
        "bash fail",
        "read fail",
        "A helper shall look.",
        "task ok",
        "Second answer.",
        "user And the host?",
        "Nothing more.",
    ]
    assert read.recorded_id == "ses_e1148ac32ffehoolPyC7gHST92"


def test_opencode_leaves_out_what_was_undone_and_summaries() -> None:
    """``/undo`` marks a message; a compaction is a message with a summary as its answer."""
    export = json.loads(RECORDED.joinpath(OPENCODE).read_bytes())
    export["messages"][1]["info"]["summary"] = True
    export["info"]["revert"] = {"messageID": export["messages"][4]["info"]["id"]}

    read = read_recording(json.dumps(export).encode())

    assert "I look." not in flow(read)
    assert flow(read)[-1] == "task ok"


def test_a_prompt_of_pi_in_sections_is_read() -> None:
    """Since 0.87 the prompt is a system message; later ones change single sections."""
    lines = [
        {"type": "session", "id": "p1", "cwd": "/project", "version": 3},
        {"type": "message", "id": "a", "parentId": None, "message": {
            "role": "system", "content": "", "sections": {
                "preamble": "You are a coding agent.", "tools": "<tools>\nbash\n</tools>"}}},
        {"type": "message", "id": "b", "parentId": "a", "message": {
            "role": "user", "content": "hello"}},
        {"type": "message", "id": "c", "parentId": "b", "message": {
            "role": "assistant", "content": [{"type": "text", "text": "hi"}]}},
        {"type": "message", "id": "d", "parentId": "c", "message": {
            "role": "system", "content": "", "sections": {"tools": None}}},
        {"type": "message", "id": "e", "parentId": "d", "message": {
            "role": "user", "content": "again"}},
        {"type": "message", "id": "f", "parentId": "e", "message": {
            "role": "assistant", "content": [{"type": "text", "text": "yes"}]}},
    ]  # fmt: skip

    read = read_recording("\n".join(map(json.dumps, lines)).encode())

    assert read.system_prompt == "You are a coding agent.\n\n<tools>\nbash\n</tools>"
    assert read.turns[1].user == 'Removed system prompt section "tools".\n\nagain'


def test_a_branch_with_a_missing_entry_loses_nothing() -> None:
    """A damaged link must not cut off the conversation before it."""
    lines = RECORDED.joinpath(CLAUDE).read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    failing = next(e for e in entries if "Now one that fails" in str(e.get("message")))
    failing["parentUuid"] = "00000000-0000-0000-0000-000000000000"

    read = read_recording("\n".join(map(json.dumps, entries)).encode())

    assert flow(read)[:5] == flow(recording(CLAUDE))[:5]


def test_pi_is_read_as_it_is_written_today() -> None:
    """`pi -p`, then `pi -p --continue`: a read, a command that failed, and two answers."""
    read = recording(PI)

    assert flow(read) == [
        "user Which port?",
        "I look.",
        "read ok",
        "bash fail",
        "It is 8080.",
        "user And the host?",
        "On localhost.",
    ]
    assert {turn.model for turn in read.turns} == {"scripted-1"}
    assert [turn.usage and turn.usage.output_tokens for turn in read.turns] == [9, 9, 9, 9]
    assert_like_the_file(read, RECORDED / PI)


def test_every_text_of_a_long_session_appears_once_and_in_order() -> None:
    """453 model calls of pi, compared with the raw file."""
    need("shared-data")
    path = SHARED / "data" / "sessions" / "pi-large-session.raw.jsonl"
    assert_like_the_file(read_recording(path.read_bytes()), path)


def assert_like_the_file(read: Recording, path: Path) -> None:
    """Compare a recording with the raw lines of pi."""
    expected: list[str] = []
    outputs: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        message = json.loads(line).get("message") or {}
        blocks = message.get("content") or []
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        if message.get("role") == "toolResult":
            outputs[message["toolCallId"]] = "\n".join(texts)
        elif message.get("role") == "user":
            expected.append("\n".join(texts))
        elif message.get("role") == "assistant":
            said = (block for block in blocks if block.get("type") in {"text", "toolCall"})
            expected += (block.get("text") or block["id"] for block in said)

    found: list[str] = []
    for turn in read.turns:
        found += [turn.user] if turn.user else []
        found += [part.call_id if isinstance(part, RecordedCall) else part for part in turn.parts]
    found += [read.unanswered] if read.unanswered else []

    assert "\n\n".join(found) == "\n\n".join(expected)
    assert {call.call_id: call.output for turn in read.turns for call in turn.calls} == {
        **{call.call_id: None for turn in read.turns for call in turn.calls},
        **outputs,
    }
