"""What a waiting person sees: a line on standard error that changes, only on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Give a function that tells what is being done now; silent where nobody looks."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("…") as status:
        yield status.update
