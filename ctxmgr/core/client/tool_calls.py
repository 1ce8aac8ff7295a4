"""What a tool call does to files and to a session's sets. Reads store and disk; commits nothing.

a file that it read        indexed, added to the session, shown in full
a file that it wrote       indexed, added to the session
files its output names     stubs, added to the session
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from ctxmgr.core.client.runtime import Runtime, refusal
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import Operation
from ctxmgr.core.tracking.index_plan import IndexOutcome, IndexPlan
from ctxmgr.core.tracking.indexing import Indexing
from ctxmgr.errors import Incorrect, NotFound

if TYPE_CHECKING:
    from ctxmgr.core.discovery.known_tools import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEffects:
    """The plans for the files that one tool call concerns, for one transaction."""

    touched: IndexPlan | None = None
    """For the file that it read or wrote."""
    discovered: IndexPlan | None = None
    """For the files that its output names."""

    @classmethod
    async def plan(
        cls, runtime: Runtime, trace: "Trace", *, output: str, faithful: bool
    ) -> tuple[Self, list[Self]]:
        """Plan the effects of a call, and those that need transactions after the call's own.

        An output may name more files than one transaction takes. ``faithful``: the output is byte
        for byte the file that was read.
        """
        discovered: list[IndexPlan] = []
        if trace.command is not None and trace.directory is not None:
            from ctxmgr.core.discovery.discover import discover

            paths = discover(
                trace.command, directory=trace.directory, output=output, failed=trace.failed
            )
            inside = runtime.sandbox.exists if runtime.sandbox is not None else None
            discovered = await runtime.indexing.plan_discovery(paths, inside=inside)
        touched, path = None, trace.read or trace.written
        if path is not None:
            # A tool may accept what is not a valid path here.
            with contextlib.suppress(Incorrect):
                content = output.encode() if faithful else None
                touched = await runtime.plan_file(path, output=content)
        first = discovered[0] if discovered else None
        later = [cls(discovered=planned) for planned in discovered[1:]]
        return cls(touched=touched, discovered=first), later

    @property
    def outcomes(self) -> list[IndexOutcome]:
        return [outcome for planned in self._plans() for outcome in planned.outcomes]

    @property
    def file_ids(self) -> list[str]:
        """The files that are stored, each once."""
        return list(dict.fromkeys(outcome.object_id for outcome in self.outcomes if outcome.file))

    @property
    def touched_ids(self) -> list[str]:
        """The file that was read or written, if it is stored."""
        outcomes = self.touched.outcomes if self.touched is not None else ()
        return [outcome.object_id for outcome in outcomes if outcome.file]

    @property
    def files_read(self) -> list[File]:
        """The files whose content was read."""
        return [
            outcome.file for outcome in self.outcomes if outcome.file and outcome.unread is None
        ]

    def operations(self) -> list[Operation]:
        return [operation for planned in self._plans() for operation in planned.operations]

    def add_to(self, session: Session) -> Session:
        """Add all files to the session's index and pool."""
        return session.add(self.file_ids)

    def show_in(self, session: Session) -> Session:
        """Show the touched file in full, if it could be read."""
        if self.touched is not None:
            for outcome in self.touched.outcomes:
                if outcome.file is not None and outcome.unread is None:
                    session = session.read(outcome.object_id)
        return session

    async def plan_again(self, indexing: Indexing, *, conflicts: frozenset[str]) -> Self:
        """Plan again for the files that another client has written meanwhile."""
        replanned = {
            name: await indexing.plan_again(planned)
            for name, planned in (("touched", self.touched), ("discovered", self.discovered))
            if planned is not None
            and not conflicts.isdisjoint(outcome.object_id for outcome in planned.outcomes)
        }
        return replace(self, **replanned)

    def _plans(self) -> Iterator[IndexPlan]:
        if self.touched is not None:
            yield self.touched
        if self.discovered is not None:
            yield self.discovered


async def plan_activation(runtime: Runtime, object_id: str) -> ToolCallEffects:
    """Plan the reading of an object that is to be shown, if it is a stub."""
    version = await runtime.store.get(object_id)
    if version is None:
        raise NotFound(f"{object_id} is not in the store")
    stored = from_document(version.document)
    if not isinstance(stored, File):
        return ToolCallEffects()
    if not stored.is_stub:
        if await runtime.state_of(stored) is FileState.NONTEXT:
            raise Incorrect(f"{object_id} is no text, and cannot be shown")
        return ToolCallEffects()
    path = runtime.display_path(stored)
    planned = await runtime.plan_file(path)
    if planned.outcomes[0].object_id != object_id:
        raise NotFound(f"{path} leads to another file now")
    require_text(path, planned)
    return ToolCallEffects(touched=planned)


def require_text(path: str, planned: IndexPlan) -> File:
    """Return the file of a plan for one path; raises if it could not be read or has no text."""
    (outcome,) = planned.outcomes
    if outcome.file is None or outcome.unread is not None:
        raise refusal(path, outcome)
    if outcome.file.content is None:
        raise Incorrect(f"{path} is no text, and cannot be shown")
    return outcome.file
