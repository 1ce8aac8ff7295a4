"""What a person sees of a run while it goes on."""

from ctxmgr.core.model import Called, Said
from ctxmgr.harness.happenings import Began, Happening, Lost, Opened, Ran
from ctxmgr.surfaces.narration import LINE_MAX, Narrator


def _told(*happenings: Happening) -> str:
    written: list[str] = []
    narrator = Narrator(written.append)
    for each in happenings:
        narrator.hear(each)
    return "".join(written)


def test_a_run_reads_as_a_story() -> None:
    """Words as they come, and one line for each thing that was done."""
    told = _told(
        Opened(session="run-1", turn=1),
        Began(turn=1),
        Said(text="Let me "),
        Said(text="look."),
        Called(tool="bash", args={"command": "ls\nsrc"}),
        Ran(tool="bash", ok=True, message="a\nb\n"),
        Called(tool="edit", args={"path": "a", "old": "x"}),
        Ran(tool="edit", ok=False, message="a is not there"),
        Lost(reason="the line broke"),
    )

    assert told.splitlines() == [
        "session run-1",
        "Let me look.",
        "→ bash  ls src",
        "  ok    2 lines",
        '→ edit  {"path": "a", "old": "x"}',
        "  fail  a is not there",
        "… the line broke; asking again",
    ]


def test_a_session_that_is_gone_on_with_says_where() -> None:
    """The person sees that nothing is begun anew."""
    assert _told(Opened(session="run-1", turn=4)) == "session run-1, from turn 4\n"


def test_nothing_a_model_says_moves_the_cursor() -> None:
    """A file that an agent reads may hold escape sequences that forge what a terminal shows."""
    told = _told(
        Said(text="a\x1b[2Jb\r"),
        Called(tool="ba\x1bsh", args="\x9b1A"),
        Ran(tool="bash", ok=False, message="\x07no"),
    )

    assert told == "a[2Jb\n→ bash  1A\n  fail  no\n"


def test_the_name_of_a_tool_forges_no_line() -> None:
    """It is the model's word like any other."""
    told = _told(Called(tool="ls\n  ok    all tests pass", args={}))

    assert told == "→ ls ok all tests pass  {}\n"


def test_a_long_call_is_one_line() -> None:
    """A file that is written would fill the screen."""
    told = _told(Called(tool="write", args={"path": "a", "content": "x" * 1_000}))

    assert len(told) == len("→ write  \n") + LINE_MAX
