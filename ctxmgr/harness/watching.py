"""Watching a session at work: what each turn did, what its prompt cost, what it left shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctxmgr.core.assembly import Context
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.model import Called
from ctxmgr.harness.happenings import Finished, Happening, Lost, Ran


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShown:
    """One turn, for a reader."""

    turn: int
    says: str = field(repr=False)
    did: tuple[str, ...]
    tokens: Mapping[str, int]
    """Of the prompt it answered, by section."""
    objects: Mapping[str, int]
    """After it, by level; ``pinned`` besides."""
    folded: int
    """Objects that were shown in full before it and are not any more."""

    @property
    def tokens_all(self) -> int:
        return sum(self.tokens.values())


class Watcher:
    """Hears what a loop tells and keeps what a reader wants to know."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._shown = set(session.sets.active_set)
        self._called: list[Called] = []
        self._ran: list[Ran] = []
        self.turns: list[TurnShown] = []

    def hear(self, happening: Happening) -> None:
        """Take what the loop tells, as it happens."""
        match happening:
            case Called():
                self._called.append(happening)
            case Ran():
                self._ran.append(happening)
            case Lost():
                self._called.clear()
            case Finished():
                self._finish(happening)

    def _finish(self, finished: Finished) -> None:
        active = set(self._session.sets.active_set)
        did = tuple(
            _told(call.tool, self._named(call.args), ran)
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

    def _named(self, args: Mapping[str, Any] | str) -> str:
        """Name what a call is about; an object by the end of its path, not by its hash."""
        if isinstance(args, str):
            return args
        if "id" not in args:
            return str(next(iter(args.values()), ""))
        return self._label(args["id"])

    def _label(self, object_id: str) -> str:
        context = self._session.context()
        path = paths(context).get(object_id)
        if path is not None:
            return "/".join(path.split("/")[-2:])
        for entry in context.pool.entries:
            if entry.object_id == object_id:
                return f"the {_field(entry.line, 'tool')} call"
        return object_id


def paths(context: Context) -> dict[str, str]:
    """How the agent calls each file of the pool."""
    return {
        entry.object_id: _field(entry.line, "path", until=" file_type=")
        for entry in context.pool.entries
        if " type=file " in entry.line
    }


def object_at(session: LiveSession, name: str) -> str:
    """Return the id of a file of the pool whose path ends with that name."""
    known = paths(session.context())
    return next(each for each, path in known.items() if path.endswith(f"/{name}"))


def _field(line: str, name: str, *, until: str = " ") -> str:
    return line.partition(f" {name}=")[2].partition(until)[0]


def _told(tool: str, about: str, ran: Ran) -> str:
    return f"{tool} {about}" if ran.ok else f"{tool} {about} (failed)"
