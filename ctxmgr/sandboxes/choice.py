"""Which sandbox to use: the one that is asked for, or the best there is. Looks for programs.

Never the host unless it is asked for by name: no sandbox is a decision, not a fallback.
"""

import shutil
from collections.abc import Collection
from typing import Final

from ctxmgr.errors import Incorrect, Unavailable

PROGRAMS: Final = {"bubblewrap": "bwrap", "docker": "docker"}
"""In the order of preference: bubblewrap needs no daemon, no image and no rights."""

HOST: Final = "host"


def choose(name: str | None, available: Collection[str]) -> str:
    """Return the name of the sandbox to start. Pure."""
    if name == HOST:
        return HOST
    if name is not None and name not in PROGRAMS:
        known = ", ".join([*PROGRAMS, HOST])
        raise Incorrect(f"{name!r:.80} is no sandbox; known: {known}")
    for each in PROGRAMS if name is None else (name,):
        if each in available:
            return each
    missing = " or ".join(PROGRAMS if name is None else (name,))
    raise Unavailable(
        f"there is no {missing} here: install it, or ask for {HOST!r}, which isolates nothing"
    )


def installed() -> frozenset[str]:
    """Return the names of the sandboxes whose programs are here."""
    return frozenset(name for name, program in PROGRAMS.items() if shutil.which(program))
