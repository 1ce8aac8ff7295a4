"""What a client works with: store, files, indexing, sandbox. Commits, and reads for the agent.

Every session of a client shares these. A commit whose reply was lost is sent again with its key,
so that it is written once; whatever else fails is raised to whoever asked.
"""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ctxmgr.core.assembly import Context, Contributor
from ctxmgr.core.collapse import Window
from ctxmgr.core.contents import File, FileState
from ctxmgr.core.file_outcomes import Gone, Read, Refusal, Refused, Unread
from ctxmgr.core.hostfiles import FILE_BYTES_MAX, HostFiles
from ctxmgr.core.index_plans import Outcome, Plan
from ctxmgr.core.indexing import Indexing
from ctxmgr.core.mounts import Place
from ctxmgr.core.sandbox import Sandbox
from ctxmgr.core.secrets import Masker
from ctxmgr.core.sessions import Session
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.core.store import Commit, Operation, Store, Version
from ctxmgr.core.tokens import TokenCounter
from ctxmgr.errors import CtxmgrError, Denied, NotFound, OutcomeUnknown, Unavailable

SENDS_MAX: Final = 3
"""Times that a transaction is sent whose reply was lost; its key makes that safe."""

Form = Callable[[Context], Any]
"""Gives a context the form of some model's API."""

Recall = Callable[[str, Session, int], Awaitable[str]]
"""Takes what is looked for, who looks, and how many objects to tell of at most."""


@cache
def _counter() -> TokenCounter:
    return TokenCounter()


def count_tokens(text: str) -> int:
    """Count; the vocabulary is loaded when something is counted for the first time."""
    return _counter().count(text)


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """One client's store and files."""

    store: Store
    files: HostFiles
    indexing: Indexing
    sandbox: Sandbox | None = None
    window: Window = field(default_factory=Window)
    directory: str | None = None
    """Where the agent's relative paths begin; None: it names none."""
    forms: Mapping[str, Form] = field(default_factory=lambda: {"text": Context.text})
    contributors: tuple[Contributor, ...] = ()
    masker: Masker = field(default_factory=Masker)
    """What is shown of secrets under a policy, and what is stored of them."""
    recall: Recall | None = None
    """Searches what a session has met; None: the agent is offered no such tool."""
    changed: Callable[[], None] = lambda: None
    """Told after every transaction of this client's."""
    follow: Callable[[Iterable[File]], Awaitable[None]] | None = None
    """Told of files that were read; None: nobody follows them."""
    count: Callable[[str], int] = count_tokens
    """Tokens of a text."""
    clock: Callable[[], float] = time.monotonic
    """Seconds, for telling how long a provider's cache has been idle."""

    async def commit(self, operations: Iterable[Operation]) -> Commit:
        """Commit, and send again what may have been lost on the way."""
        commit = await commit_once(self.store, operations)
        self.indexing.note(commit)
        self.changed()
        return commit

    async def plan_file(self, path: str, *, output: bytes | None = None) -> Plan:
        """Plan the reading of a file: on a mount by us, elsewhere through the sandbox.

        ``output`` is believed for the sandbox's own files where there is no sandbox to ask.
        """
        planned = await self.indexing.plan_read(path)
        (outcome,) = planned.outcomes
        if not _is_inside(outcome.unread):
            return planned
        if self.sandbox is not None:
            read = await self.sandbox.read(path, bytes_max=FILE_BYTES_MAX)
            if not isinstance(read, Read):
                return planned
            output = read.data
        return planned if output is None else await self.indexing.plan_read(path, output=output)

    async def among_files(self, paths: Iterable[str]) -> frozenset[str]:
        """Return those that are files in the sandbox's own filesystem."""
        assert self.sandbox is not None
        return await self.sandbox.exists(paths)

    def display_path(self, file: File) -> str:
        """Return the path by which the agent knows the file."""
        source = file.source
        assert isinstance(source, FilesystemSource), "the only source type there is"
        place = Place(filesystem_id=source.filesystem_id, path=source.path, on_host=True)
        return self.files.mounts.reverse(place)

    async def state_of(self, file: File, *, version: Version | None = None) -> FileState:
        """Tell what can be shown of a stored file."""
        if file.is_stub or file.content is not None:
            return file.state()
        stored = version or await self.store.get(file.object_id)
        return file.state() if stored is None else await self.indexing.state_of(stored)


async def commit_once(store: Store, operations: Iterable[Operation]) -> Commit:
    """Commit, and send again what may have been lost on the way: it is written once at most."""
    given, key = tuple(operations), uuid.uuid4().hex
    for _ in range(SENDS_MAX - 1):
        try:
            return await store.commit(given, key=key)
        except OutcomeUnknown:
            continue
    return await store.commit(given, key=key)


def refusal(path: str, outcome: Outcome) -> CtxmgrError:
    """Say as an error why a file could not be read."""
    unread = outcome.unread
    if isinstance(unread, Gone):
        return NotFound(f"{path} does not exist: {unread.reason}")
    if isinstance(unread, Refused):
        return Denied(f"{path} is not read: {unread.reason}")
    reason = unread.reason if unread is not None else "it was never read"
    return Unavailable(f"{path} cannot be read: {reason}")


def _is_inside(unread: Unread | None) -> bool:
    return isinstance(unread, Refused) and unread.refusal is Refusal.OUTSIDE
