"""Pausing the collector. Its generations belong to the process: each test begins a new one."""

import gc
from collections.abc import Iterator

import pytest

from ctxmgr.core import collector
from ctxmgr.core.collector import collector_paused


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Objects that the test runner has frozen count as such only where a test says so."""
    monkeypatch.setattr(collector, "_promoted_after", -1)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)
    gc.collect()
    assert gc.isenabled()
    yield
    assert gc.isenabled()


def _new_objects() -> list[list[int]]:
    return [[number] for number in range(3 * collector._NEW_MIN)]


def test_what_was_created_is_not_looked_at_again() -> None:
    """003-R125: a long session is not scanned by the next runs of the collector."""
    with collector_paused():
        assert not gc.isenabled()
        objects = _new_objects()
    assert gc.get_count()[0] < collector._NEW_MIN
    assert len(gc.get_objects(generation=0)) < len(objects)
    assert any(found is objects[-1] for found in gc.get_objects(generation=2))


def test_few_new_objects_stay_new() -> None:
    with collector_paused():
        last = [[number] for number in range(100)][-1]
    assert any(found is last for found in gc.get_objects(generation=0))


def test_objects_are_promoted_once_between_full_collections() -> None:
    """Promoted objects do not bring the next full collection closer: garbage must not pile up."""
    with collector_paused():
        first = _new_objects()
    with collector_paused():
        second = _new_objects()
    assert any(found is first[-1] for found in gc.get_objects(generation=2))
    assert not any(found is second[-1] for found in gc.get_objects(generation=2))
    gc.collect()
    with collector_paused():
        third = _new_objects()
    assert any(found is third[-1] for found in gc.get_objects(generation=2))


def test_objects_that_a_program_has_frozen_stay_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1)
    monkeypatch.setattr(gc, "unfreeze", lambda: pytest.fail("unfrozen"))
    with collector_paused():
        objects = _new_objects()
    assert not any(found is objects[-1] for found in gc.get_objects(generation=2))


def test_a_block_inside_another_does_not_start_the_collector() -> None:
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
