"""Packages that only some commands need, and how their absence is told. Touches nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

from ctxmgr.errors import ExtraMissing


@contextmanager
def brought_by(extra: str, *packages: str) -> Iterator[None]:
    """Import what an extra brings; ``ExtraMissing`` names it if one of the packages is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in packages:
            raise
        raise ExtraMissing(package, extra=extra) from error
