"""An error is learnt with the change that made the same command pass."""

from ctxmgr.memory.extraction.error_fixes import OpenFailure, extract_error_fixes
from ctxmgr.memory.records.bodies import Episode
from ctxmgr.memory.records.memory import MemoryKind
from tests.memory.extraction.exchanges import edited, ran, worked

FAILED = "Traceback (most recent call last):\nKeyError: 'price'\n"


def test_the_change_between_failure_and_success_is_the_fix() -> None:
    """001-R014: recent errors are shown with their fixes."""
    exchange = worked(
        ran(1, "cd /app && pytest -q 2>&1 | tail -5", FAILED, ok=False),
        edited(2, "src/cart.py", "item['price']", "item.get('price', 0)"),
        ran(3, "pytest -q", "3 passed"),
    )
    result, still_open = extract_error_fixes(exchange)
    (item,) = result.learnt
    assert isinstance(item.body, Episode)
    assert item.kind is MemoryKind.ERROR_FIX
    assert item.body.problem == "`pytest -q` failed: KeyError: 'price'"
    assert item.body.fix == "src/cart.py: `item['price']` became `item.get('price', 0)`"
    assert item.tags == ("src/cart.py",)
    assert item.object_id == "call-1"
    assert still_open == ()


def test_a_failure_waits_for_a_later_exchange_and_survives_storage() -> None:
    first = worked(ran(1, "pytest -q", FAILED, ok=False))
    _, waiting = extract_error_fixes(first)
    stored = tuple(OpenFailure.from_value(each.to_value()) for each in waiting)
    second = worked(edited(2, "src/cart.py", "a", "b"), ran(3, "pytest -q", "ok"))
    result, _ = extract_error_fixes(second, stored)
    assert len(result.learnt) == 1


def test_nothing_is_learnt_without_a_change() -> None:
    exchange = worked(ran(1, "pytest -q", FAILED, ok=False), ran(2, "pytest -q", "ok"))
    result, _ = extract_error_fixes(exchange)
    assert result.learnt == ()
    assert result.refused[0].reason == "the command passed without a change"


def test_a_script_that_was_changed_proves_nothing() -> None:
    exchange = worked(
        ran(1, "python check_it.py", FAILED, ok=False),
        edited(2, "check_it.py", "a", "b"),
        edited(3, "src/cart.py", "a", "b"),
        ran(4, "python check_it.py", "ok"),
    )
    result, _ = extract_error_fixes(exchange)
    assert result.learnt == ()


def test_a_search_that_finds_nothing_is_no_error() -> None:
    exchange = worked(
        ran(1, "grep -rn 'a|b' src", "", ok=False),
        edited(2, "src/cart.py", "a", "b"),
        ran(3, "grep -rn 'a|b' src", "src/cart.py:1:b"),
    )
    result, still_open = extract_error_fixes(exchange)
    assert (result.learnt, result.refused, still_open) == ((), (), ())


def test_an_exit_code_in_the_output_counts() -> None:
    """Many harnesses report a failed command as an ordinary output."""
    exchange = worked(
        ran(1, "make test", "<returncode>2</returncode>\nsrc/a.c:3: error: missing ';'"),
        edited(2, "src/a.c", "x", "x;"),
        ran(3, "make test", "<returncode>0</returncode>\nok"),
    )
    (item,) = extract_error_fixes(exchange)[0].learnt
    assert isinstance(item.body, Episode)
    assert item.body.problem is not None
    assert "missing ';'" in item.body.problem


def test_lines_that_are_deleted_again_are_no_fix() -> None:
    """An agent that takes its own debugging out has learnt nothing for later."""
    exchange = worked(
        ran(1, "make test", FAILED, ok=False),
        ran(2, "sed -i '/print(/d' src/cart.py"),
        ran(3, "make test", "ok"),
    )
    result, _ = extract_error_fixes(exchange)
    assert result.learnt == ()
    assert "nothing says what was changed" in result.refused[0].reason
