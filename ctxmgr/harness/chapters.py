"""What the demo tells: chapters with turns and facts. Values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ctxmgr.harness.watching import TurnShown

TRY_NEXT: Final = (
    "ctxmgr demo --json                       every figure of it, for a program",
    "ctxmgr demo --store sqlite:///demo.db    the same, kept in a file",
    "ctxmgr feed --store sqlite:///demo.db    what its last transactions wrote",
    "ctxmgr demo --xtdb                       the same on an XTDB server of its own",
    "ctxmgr run 'your task' --model NAME      the same loop with a model, in this folder",
    "docs/harness.md                          put it into your own harness",
)


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
    try_next: tuple[str, ...] = TRY_NEXT

    @property
    def turns(self) -> tuple[TurnShown, ...]:
        return tuple(turn for chapter in self.chapters for turn in chapter.turns)
