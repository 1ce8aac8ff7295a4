"""Rules read whatever agents and repositories write: no text of the sizes read takes them long."""

import time
from collections.abc import Callable

import pytest

from ctxmgr.memory.extraction.episodes import extract_episode
from ctxmgr.memory.extraction.exchange import AnswerPassage, Exchange, ToolRun
from ctxmgr.memory.extraction.extract import lessons_of
from ctxmgr.memory.extraction.project_files import FILE_CHARS_MAX, conventions_of
from ctxmgr.memory.extraction.tool_runs import changes_of, error_of, same_command
from ctxmgr.memory.learning.read_exchange import TEXT_CHARS_MAX
from ctxmgr.memory.records.bodies import Episode

SECONDS_MAX = 10.0
"""Of the processor."""


def _said(user: str) -> Exchange:
    return Exchange(session_id="s", first_turn=1, last_turn=1, user=user)


def _run(args: dict[str, str]) -> ToolRun:
    return ToolRun(
        object_id="o", object_hash=None, turn=1, tool="edit", args=args, ok=True, output=""
    )


def _lines(numbers: range) -> str:
    return "\n".join(map(str, numbers))


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda: error_of("\n" * 40_000), id="blank lines in an output"),
        pytest.param(lambda: same_command(f"a{chr(10) * 3_990}b"), id="blank lines in a command"),
        pytest.param(
            lambda: same_command(f"a | cat{chr(10) * 3_990}&"), id="blank lines after a pipe"
        ),
        pytest.param(
            lambda: changes_of(_run({"patch": f"*** Add File: x{' ' * (TEXT_CHARS_MAX - 20)}y"})),
            id="spaces in a patch",
        ),
        pytest.param(
            lambda: changes_of(
                _run(
                    {
                        "path": "a.txt",
                        "old_string": _lines(range(10_000, 30_000)),
                        "new_string": _lines(range(30_000, 50_000)),
                    }
                )
            ),
            id="many lines replaced",
        ),
        pytest.param(
            lambda: extract_episode(_said("<a>" * (TEXT_CHARS_MAX // 3))), id="tags never closed"
        ),
        pytest.param(
            lambda: lessons_of(_said(f"always run{' ' * 19_900}tests")), id="spaces in a message"
        ),
        pytest.param(
            lambda: conventions_of(
                "AGENTS.md", "- " + "[" * FILE_CHARS_MAX, object_id="o", object_hash=None
            ),
            id="brackets in a project file",
        ),
        pytest.param(
            lambda: conventions_of(
                "AGENTS.md", "- " + "[a](" * (FILE_CHARS_MAX // 4), object_id="o", object_hash=None
            ),
            id="links in a project file",
        ),
    ],
)
def test_no_text_takes_long(act: Callable[[], object]) -> None:
    """A rule that takes long holds up everything else in the process."""
    began = time.process_time()
    act()
    assert time.process_time() - began < SECONDS_MAX


def test_the_first_tag_that_is_closed_is_the_request() -> None:
    """Of a task template nothing is the user's own, but it says what was asked."""
    exchange = Exchange(
        session_id="s",
        first_turn=1,
        last_turn=1,
        user="<br><task>make the tests of the shop pass</task><rules>never give up</rules>",
        answers=(AnswerPassage(turn=1, text="All tests of the shop pass now."),),
        runs=(_run({"command": "pytest -q"}),),
    )
    (item,) = extract_episode(exchange).learnt
    assert isinstance(item.body, Episode)
    assert item.body.title == "make the tests of the shop pass"
