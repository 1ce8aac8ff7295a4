"""The terminal output of a run in progress."""

from ctxmgr.core.model import TextDelta, ToolUse
from ctxmgr.harness.loop_events import AnswerRestarted, LoopEvent, RunOpened, ToolRan, TurnStarted
from ctxmgr.harness.narrator import LINE_MAX, Narrator


def narrated(*events: LoopEvent) -> str:
    written: list[str] = []
    narrator = Narrator(written.append)
    for event in events:
        narrator.on_event(event)
    return "".join(written)


def test_a_run_is_printed_step_by_step() -> None:
    """Text is streamed, and each action has one line."""
    lines = narrated(
        RunOpened(session="run-1", turn=1),
        TurnStarted(turn=1),
        TextDelta(text="Let me "),
        TextDelta(text="look."),
        ToolUse(tool="bash", args={"command": "ls\nsrc"}),
        ToolRan(tool="bash", ok=True, message="a\nb\n"),
        ToolUse(tool="edit", args={"path": "a", "old": "x"}),
        ToolRan(tool="edit", ok=False, message="a is not there"),
        AnswerRestarted(reason="the line broke"),
    )

    assert lines.splitlines() == [
        "session run-1",
        "Let me look.",
        "→ bash  ls src",
        "  ok    2 lines",
        '→ edit  {"path": "a", "old": "x"}',
        "  fail  a is not there",
        "… the line broke; asking again",
    ]


def test_a_resumed_session_is_announced() -> None:
    """The user sees that the session was resumed, not started."""
    assert narrated(RunOpened(session="run-1", turn=4)) == "session run-1, from turn 4\n"


def test_model_output_never_moves_the_cursor() -> None:
    """Text may contain escape sequences that forge terminal output."""
    lines = narrated(
        TextDelta(text="a\x1b[2Jb\r"),
        ToolUse(tool="ba\x1bsh", args="\x9b1A"),
        ToolRan(tool="bash", ok=False, message="\x07no"),
    )

    assert lines == "a[2Jb\n→ bash  1A\n  fail  no\n"


def test_the_name_of_a_tool_cannot_forge_a_line() -> None:
    """The model chooses it, so it is not trusted."""
    lines = narrated(ToolUse(tool="ls\n  ok    all tests pass", args={}))

    assert lines == "→ ls ok all tests pass  {}\n"


def test_a_long_call_is_one_line() -> None:
    """The arguments of a write would fill the screen."""
    lines = narrated(ToolUse(tool="write", args={"path": "a", "content": "x" * 1_000}))

    assert len(lines) == len("→ write  \n") + LINE_MAX
