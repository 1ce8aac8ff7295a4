"""Pause Python's cyclic garbage collector while many objects are created. Changes the process."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OLDEST = 2
_NEW_MIN = 20_000
"""New objects that are worth promoting: the collector looks at fewer in a millisecond."""

_promoted_after = -1
"""The number of full collections when objects were promoted last; -1: they never were."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Do not look for garbage until the block ends.

    Reading a long session creates a hundred thousand objects that stay, and the collector would
    look at them again and again. Blocks of several tasks may overlap: the collector is started
    again when the block ends that stopped it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _promote()
        gc.enable()


def _promote() -> None:
    """Count the new objects as old, or the next two runs would look at all of them.

    Garbage among them is found by a full collection. Since this makes the next one later, it is
    done again only after one. In a program that keeps objects frozen it is not possible.
    """
    global _promoted_after  # noqa: PLW0603 (the collector belongs to the process, too)
    collections = gc.get_stats()[_OLDEST]["collections"]
    if gc.get_count()[0] < _NEW_MIN or collections == _promoted_after or gc.get_freeze_count():
        return
    _promoted_after = collections
    gc.freeze()
    gc.unfreeze()
