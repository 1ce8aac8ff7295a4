"""What all sessions of a client share: store, files, indexing, sandbox. Commits, and reads files.

A commit whose reply was lost is sent again with its key, so that it is written once.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ctxmgr.core.context.assembly import Context
from ctxmgr.core.files.host_files import FILE_BYTES_MAX, HostFiles
from ctxmgr.core.files.mounts import FileLocation, Mounts
from ctxmgr.core.files.outcomes import MissingFile, ReadFile, Refusal, RefusedFile
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.core.sessions.collapse import Window
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.commits import commit_once
from ctxmgr.core.store.contract import Commit, Operation, Store, Version
from ctxmgr.core.tracking.index_plan import IndexOutcome, IndexPlan
from ctxmgr.core.tracking.indexing import Indexing, state_of
from ctxmgr.errors import CtxmgrError, Denied, NotFound, Unavailable

if TYPE_CHECKING:
    from ctxmgr.core.context.contributors import Contributor
    from ctxmgr.core.context.tokens import TokenCounter
    from ctxmgr.core.sandbox import Sandbox

Form: TypeAlias = Callable[[Context], Any]
"""Converts a context to the messages of a model's API."""

RecallSearch: TypeAlias = Callable[[str, Session, int], Awaitable[str]]
"""Searches for a query in what a session has seen; the last argument limits the objects."""

CommitObserver: TypeAlias = Callable[[Sequence[File]], Awaitable[None]]
"""Called after each transaction of a client, with the files whose content was read for it."""


@cache
def _counter() -> "TokenCounter":
    from ctxmgr.core.context.tokens import TokenCounter

    return TokenCounter()


def count_tokens(text: str) -> int:
    """Count the tokens of a text; the vocabulary is loaded by the first call."""
    return _counter().count(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The resources of one client. Built once, by ``app``."""

    store: Store
    files: HostFiles
    indexing: Indexing
    sandbox: "Sandbox | None" = None
    window: Window = field(default_factory=Window)
    directory: str | None = None
    """What the agent's relative paths are resolved against; None: it may use none."""
    forms: Mapping[str, Form] = field(default_factory=lambda: {"text": Context.text})
    contributors: "tuple[Contributor, ...]" = ()
    masker: Masker = field(default_factory=Masker)
    """Decides what is shown of secrets under a policy, and what is stored of them."""
    recall: RecallSearch | None = None
    """None: there is no search index, and the agent is not offered the tool."""
    observers: tuple[CommitObserver, ...] = ()
    count: Callable[[str], int] = count_tokens
    """Counts the tokens of a text."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970, to measure how long a provider's cache has been idle, even if another
    process used it last."""

    async def commit(self, operations: Iterable[Operation], *, read: Sequence[File] = ()) -> Commit:
        """Commit, and inform the observers; ``read`` are files that were read for this."""
        commit = await commit_once(self.store, operations)
        self.indexing.note(commit)
        for observer in self.observers:
            await observer(read)
        return commit

    async def plan_file(self, path: str, *, output: bytes | None = None) -> IndexPlan:
        """Plan the reading of a file: from the host if it is on a mount, else from the sandbox.

        ``output`` is used for the sandbox's own files if there is no sandbox that can be asked.
        """
        planned = await self.indexing.plan_read(path)
        unread = planned.outcomes[0].unread
        if not isinstance(unread, RefusedFile) or unread.refusal is not Refusal.OUTSIDE:
            return planned
        if self.sandbox is not None:
            read = await self.sandbox.read(path, bytes_max=FILE_BYTES_MAX)
            if not isinstance(read, ReadFile):
                return planned
            output = read.data
        return planned if output is None else await self.indexing.plan_read(path, output=output)

    def display_path(self, file: File) -> str:
        """Return the path that the agent uses for the file."""
        return display_path(file, self.files.mounts)

    async def state_of(self, file: File, *, version: Version | None = None) -> FileState:
        """Return what can be shown of a stored file."""
        if file.is_stub or file.content is not None:
            return file.state()
        stored = version or await self.store.get(file.object_id)
        return file.state() if stored is None else await state_of(self.store, stored)


def display_path(file: File, mounts: Mounts) -> str:
    """Return the path that an agent with these mounts uses for the file."""
    source = file.source
    assert isinstance(source, FilesystemSource), "the only source type there is"
    return mounts.reverse(
        FileLocation(filesystem_id=source.filesystem_id, path=source.path, on_host=True)
    )


def refusal(path: str, outcome: IndexOutcome) -> CtxmgrError:
    """Return the error for a file that could not be read."""
    unread = outcome.unread
    if isinstance(unread, MissingFile):
        return NotFound(f"{path} does not exist: {unread.reason}")
    if isinstance(unread, RefusedFile):
        return Denied(f"{path} is not read: {unread.reason}")
    reason = unread.reason if unread is not None else "it was never read"
    return Unavailable(f"{path} cannot be read: {reason}")
