"""Pause Python's cyclic garbage collector while many objects are created. Changes the process."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
        gc.enable()
