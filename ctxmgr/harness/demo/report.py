"""The report of the demo: chapters with turns and facts, collected while the agent works.

The field names are the keys of ``ctxmgr demo --json``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.assembly import Context
from ctxmgr.core.model import ToolUse
from ctxmgr.harness.loop_events import AnswerRestarted, LoopEvent, ToolRan, TurnEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShown:
    """One turn, for a reader."""

    turn: int
    says: str = field(repr=False)
    did: tuple[str, ...]
    tokens: Mapping[str, int]
    """Of the prompt, by section."""
    objects: Mapping[str, int]
    """After the turn, by level; also ``pinned``."""
    folded: int
    """Objects that were shown in full before the turn and are not any more."""

    @property
    def tokens_all(self) -> int:
        return sum(self.tokens.values())


class TurnWatcher:
    """Collects the turns of a session from the events of the loop."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._shown = set(session.sets.active_set)
        self._called: list[ToolUse] = []
        self._ran: list[ToolRan] = []
        self.turns: list[TurnShown] = []

    def on_event(self, event: LoopEvent) -> None:
        """Handle one event of the loop."""
        match event:
            case ToolUse():
                self._called.append(event)
            case ToolRan():
                self._ran.append(event)
            case AnswerRestarted():
                self._called.clear()
            case TurnEnded():
                self._finish(event)

    def _finish(self, finished: TurnEnded) -> None:
        active = set(self._session.sets.active_set)
        did = tuple(
            f"{call.tool} {self._argument(call.args)}{'' if ran.ok else ' (failed)'}"
            for call, ran in zip(self._called, self._ran, strict=True)
        )
        self.turns.append(
            TurnShown(
                turn=finished.turn,
                says=finished.text,
                did=did,
                tokens=finished.sections,
                objects=finished.levels,
                folded=len(self._shown - active),
            )
        )
        self._shown = active
        self._called, self._ran = [], []

    def _argument(self, args: Mapping[str, Any] | str) -> str:
        """Return the first argument of a call; an object by the end of its path, not by its id."""
        if isinstance(args, str):
            return args
        if "id" not in args:
            return str(next(iter(args.values()), ""))
        object_id, context = str(args["id"]), self._session.context()
        path = paths(context).get(object_id)
        if path is not None:
            return "/".join(path.split("/")[-2:])
        for entry in context.pool.entries:
            if entry.object_id == object_id:
                return f"the {_field(entry.line, 'tool')} call"
        return object_id


def paths(context: Context) -> dict[str, str]:
    """Return the agent's path of each file of the pool."""
    return {
        entry.object_id: _field(entry.line, "path", until=" file_type=")
        for entry in context.pool.entries
        if " type=file " in entry.line
    }


def object_at(session: LiveSession, name: str) -> str:
    """Return the id of a file of the pool whose path ends with that name."""
    by_id = paths(session.context())
    return next(object_id for object_id, path in by_id.items() if path.endswith(f"/{name}"))


def _field(line: str, name: str, *, until: str = " ") -> str:
    return line.partition(f" {name}=")[2].partition(until)[0]


KEPT: Final = "sqlite:///demo.db"
"""The store to suggest if none was given."""


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
    """Whether the project's own tests pass at the end."""
    proven: bool
    """Whether the rebuilt prompt has its recorded hash and is what the model received."""
    try_next: tuple[Suggestion, ...]

    @property
    def turns(self) -> tuple[TurnShown, ...]:
        return tuple(turn for chapter in self.chapters for turn in chapter.turns)


def try_next(url: str | None, *, session: str) -> tuple[Suggestion, ...]:
    """Suggest commands for the store that was given, or for one that is kept."""
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
