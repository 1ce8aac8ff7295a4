"""Names of tool calls, and how a turn spent its time."""

from typing import Any

import pytest

from ctxmgr.surfaces.views.calls import TurnCall, main_argument, time_spans


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"path": "README.md"}, "README.md"),
        ({"timeout": 3, "command": "git log --oneline\n  -5"}, "git log --oneline -5"),
        ({"command": ["git", "log"]}, "git log"),
        ({"newText": "x", "file_path": "/src/a.py"}, "/src/a.py"),
        ({"anything": "else"}, "else"),
        ({"limit": 5}, ""),
        ({}, ""),
        ({"command": "x" * 300}, "x" * 119 + "…"),
    ],
)
def test_a_call_is_named_by_its_most_telling_argument(args: dict[str, Any], named: str) -> None:
    """A list of names of tools alone does not help to find a call."""
    assert main_argument(args) == named


def _call(object_id: str, time: int | None) -> TurnCall:
    return TurnCall(
        turn=1,
        object_id=object_id,
        stored=True,
        tool="bash",
        argument="",
        args={},
        status="ok",
        time=time,
    )


def test_a_turn_is_divided_at_its_recorded_times() -> None:
    """The answer, each call, and the rest."""
    calls = [_call("a", 150), _call("b", 170)]

    spans = time_spans(calls, start=100, answered=140, end=175)

    assert [(span.what, span.start, span.end, span.object_id) for span in spans] == [
        ("model", 100, 140, None),
        ("tool", 140, 150, "a"),
        ("tool", 150, 170, "b"),
        ("end", 170, 175, None),
    ]


def test_what_is_not_recorded_is_not_guessed() -> None:
    """Without the time of the answer, it cannot be told from the first call."""
    spans = time_spans([_call("a", 150)], start=100, answered=None, end=175)

    assert [(span.what, span.end) for span in spans] == [("both", 150), ("end", 175)]
    assert [span.what for span in time_spans([], start=1, answered=None, end=2)] == ["model"]


def test_times_of_another_clock_are_left_out() -> None:
    """A session that was recorded in March and imported in May did not take two months."""
    assert time_spans([], start=1_000, answered=10, end=2_000) == ()
    assert time_spans([_call("a", 500)], start=1_000, answered=1_500, end=2_000) == ()


def test_the_first_turn_has_no_beginning() -> None:
    """It is not recorded when the user began to type."""
    spans = time_spans([_call("a", 150)], start=None, answered=140, end=175)

    assert [(span.what, span.start) for span in spans] == [("tool", 140), ("end", 150)]
