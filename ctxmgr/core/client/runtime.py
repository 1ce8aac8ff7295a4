"""What all sessions of a client share: store, files, indexing, sandbox. Commits, and reads files.

A commit whose reply was lost is sent again with its key, so that it is written once.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ctxmgr.core.client.known_paths import OUT_OF_REACH
from ctxmgr.core.context.assembly import Context
from ctxmgr.core.files.host_files import FILE_BYTES_MAX, HostFiles
from ctxmgr.core.files.mounts import FileLocation, Mounts
from ctxmgr.core.files.outcomes import MissingFile, ReadFile, Refusal, RefusedFile
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.core.sessions.collapse import Window
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.commits import commit_once
from ctxmgr.core.store.contract import Commit, Operation, Store
from ctxmgr.core.tracking.index_plan import IndexOutcome, IndexPlan
from ctxmgr.core.tracking.indexing import Indexing
from ctxmgr.core.tracking.observation import EXISTING
from ctxmgr.errors import CtxmgrError, Denied, Incorrect, NotFound, Unavailable

if TYPE_CHECKING:
    from ctxmgr.core.context.contributors import Contributor
    from ctxmgr.core.context.flushes import Flusher
    from ctxmgr.core.context.layer_tools import LayerTool
    from ctxmgr.core.context.tokens import TokenCounter
    from ctxmgr.core.model import Model
    from ctxmgr.core.sandbox import Sandbox

Form: TypeAlias = Callable[[Context], Any]
"""Converts a context to the messages of a model's API."""

RecallSearch: TypeAlias = Callable[[str, Session, int], Awaitable[str]]
"""Searches for a query in what a session has seen; the last argument limits the objects."""

CommitObserver: TypeAlias = Callable[[Sequence[File]], Awaitable[None]]
"""Called after each transaction of a client, with the files whose content was read for it."""


class FileAccess(StrEnum):
    """What a tool call did with a file."""

    READ = "read"
    WRITTEN = "written"
    NAMED = "named"
    """Its output names the file."""


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
    contribute: bool = False
    """Whether contributors are asked if a render does not say."""
    flushers: "tuple[Flusher, ...]" = ()
    """Layers that save what matters before turns are summarised."""
    summariser: "Model | None" = None
    """Writes the notes of summaries; None: they are chosen without a model."""
    masker: Masker = field(default_factory=Masker)
    """Decides what is shown of secrets under a policy, and what is stored of them."""
    recall: RecallSearch | None = None
    """None: there is no search index, and the agent is not offered the tool."""
    layer_tools: "tuple[LayerTool, ...]" = ()
    """Tools of layers, which agents are offered after those of the core."""
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

    async def plan_file(
        self, path: str, *, output: bytes | None = None, access: FileAccess | None = None
    ) -> IndexPlan:
        """Plan the reading of a file: from the host if it is on a mount, else from the sandbox.

        If there is no sandbox that can be asked, ``output`` is the content of one of its own files.
        Without it, ``access`` says what a tool is known to have done with the file: it exists if it
        was read, and its stored content is outdated if it was written.
        """
        planned = await self.indexing.plan_read(path)
        unread = planned.outcomes[0].unread
        if not isinstance(unread, RefusedFile) or unread.refusal is not Refusal.OUTSIDE:
            return planned
        if self.sandbox is not None:
            read = await self.sandbox.read(path, bytes_max=FILE_BYTES_MAX)
            inside = read.data if isinstance(read, ReadFile) else read
            return await self.indexing.plan_read(path, inside=inside)
        if output is not None:
            return await self.indexing.plan_read(path, inside=output)
        if access is not None:
            changed = access is FileAccess.WRITTEN
            return await self.indexing.plan_read(path, inside=EXISTING, changed=changed)
        return planned

    def reached_at(self, file: File) -> str | None:
        """Return the path at which the agent reaches the file; None if it is out of reach."""
        return self.files.mounts.reached_at(_location(file))


def display_path(file: File, mounts: Mounts) -> str:
    """Return the path that an agent with these mounts uses for the file.

    Of a file on the same filesystem as a mount, but on none of them, only the name is shown: its
    path is the host's.
    """
    location = _location(file)
    path = mounts.reached_at(location)
    hosts = {mapping.filesystem_id for mapping in mounts.mappings if mounts.is_on_host(mapping)}
    if path is None and mounts.sandboxed and location.filesystem_id in hosts:
        return f"{OUT_OF_REACH}/{file.source.name}"
    return mounts.reverse(location) if path is None else path


def _location(file: File) -> FileLocation:
    source = file.source
    assert isinstance(source, FilesystemSource), "the only source type there is"
    return FileLocation(filesystem_id=source.filesystem_id, path=source.path, on_host=True)


def refusal(path: str, outcome: IndexOutcome) -> CtxmgrError:
    """Return the error for a file that could not be read."""
    unread = outcome.unread
    if isinstance(unread, MissingFile):
        return NotFound(f"{path} does not exist: {unread.reason}")
    if isinstance(unread, RefusedFile) and unread.is_folder:
        return Incorrect(f"{path} is a directory; list it, or read one of its files")
    if isinstance(unread, RefusedFile) and unread.refusal is Refusal.OUTSIDE:
        return Denied(f"{path} is {unread.reason}")
    if isinstance(unread, RefusedFile):
        return Denied(f"{path} is not read: {unread.reason}")
    reason = unread.reason if unread is not None else "it was never read"
    return Unavailable(f"{path} cannot be read: {reason}")
