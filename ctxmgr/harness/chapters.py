"""What the demo tells: chapters with turns and facts. Values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ctxmgr.harness.watching import TurnShown

KEPT: Final = "sqlite:///demo.db"
"""A store to suggest to whoever gave none."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    what: str
    how: str
    """A command to copy, or a page to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    title: str
    says: str
    turns: tuple[TurnShown, ...] = ()
    facts: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    session: str
    store: str
    sandbox: str
    tokens_by: str
    """The vocabulary that tokens are counted with."""
    chapters: tuple[Chapter, ...]
    mended: bool
    """The project's own tests pass at the end."""
    proven: bool
    """The earlier prompt has its recorded hash, and is what the model received."""
    try_next: tuple[Suggestion, ...]

    @property
    def turns(self) -> tuple[TurnShown, ...]:
        return tuple(turn for chapter in self.chapters for turn in chapter.turns)


def try_next(url: str | None, *, session: str) -> tuple[Suggestion, ...]:
    """Suggest what to look at: in the store that was given, or in one to be kept."""
    kept, name = (url, session) if url else (KEPT, "SESSION")
    first = () if url else (Suggestion("keep what it does", f"ctxmgr demo --store {KEPT}"),)
    return (
        *first,
        Suggestion("its sessions", f"ctxmgr sessions --store {kept}"),
        Suggestion("turn by turn", f"ctxmgr log {name} --store {kept}"),
        Suggestion("an old prompt", f"ctxmgr context {name} --turn 3 --store {kept}"),
        Suggestion("another store", "ctxmgr demo --xtdb"),
        Suggestion("a real model", "ctxmgr run 'your task' --model NAME"),
        Suggestion("your harness", "docs/harness.md"),
    )
