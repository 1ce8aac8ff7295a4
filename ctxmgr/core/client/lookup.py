"""Find the object of a session that a name means. Does no I/O itself: its caller reads.

    5f0c…, toolu_1   the id
    #7               a handle of the economy layout
    /src/a.py, a.py  the path of a file as the agent sees it, absolute or in its directory
    5f0c             the beginning of an id, if it is the only one

Tools, command line, HTTP API and MCP server accept the same names, because all of them ask here.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.context.compact import short_ids
from ctxmgr.core.discovery.known_tools import absolute
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.sessions.sets import Session
from ctxmgr.errors import Incorrect, NotFound

PREFIX_LENGTH_MIN: Final = 4
"""Characters of an id prefix: a shorter one is more likely a typo."""

NAMED_MAX: Final = 5
"""Ids that an error message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLookup:
    """Where the names of a session's objects are looked up."""

    mounts: Mounts
    directory: str | None
    """What relative paths are resolved against; None: they are not names."""
    with_handle: Callable[[str], Awaitable[str | None]]
    """Returns the object that has a handle; None if there is none."""
    shown_as: Callable[[str], Awaitable[list[str]]]
    """Returns the files that were shown under a path; called if no mount gives their id."""

    is_compact: bool = False
    """Whether prompts show short ids: one that has become ambiguous means what it meant."""

    async def resolve(self, session: Session, name: str) -> str:
        """Return the id of the object that a name means.

        ``NotFound`` if there is no such handle or path, ``Incorrect`` if the name is ambiguous. Any
        other name that matches nothing is returned unchanged: the session's sets report it.
        """
        index = session.session_index
        if name in index:
            return name
        if name.startswith("#"):
            return await self._of_handle(session, name)
        if name.startswith("/"):
            return await self._of_path(session, name)
        path = absolute(name, directory=self.directory)
        object_id = None if path is None else self._file_at(path)
        if object_id is not None and object_id in index:
            return object_id
        if self.is_compact:
            shorts = short_ids(session.metadata_pool)
            meant = next((whole for whole, short in shorts.items() if short == name), None)
            if meant is not None:
                return meant
        return _of_prefix(session, name)

    async def _of_handle(self, session: Session, handle: str) -> str:
        object_id = await self.with_handle(handle)
        if object_id is None:
            raise NotFound(f"session {session.session_id} has no handle {handle!r:.80}")
        return object_id

    async def _of_path(self, session: Session, path: str) -> str:
        object_id = self._file_at(path)
        if object_id is not None and object_id in session.session_index:
            return object_id
        shown = await self.shown_as(path)
        matching = [object_id for object_id in shown if object_id in session.session_index]
        if not matching:
            raise NotFound(f"session {session.session_id} has seen no file {path!r:.200}")
        if len(matching) > 1:
            listed = ", ".join(matching[:NAMED_MAX])
            raise Incorrect(f"{len(matching)} files match {path!r:.200}: name one by id ({listed})")
        return matching[0]

    def _file_at(self, path: str) -> str | None:
        """Return the id of the file at a path; None if the path is invalid."""
        try:
            location = self.mounts.forward(path)
            source = FilesystemSource(filesystem_id=location.filesystem_id, path=location.path)
        except Incorrect:
            return None
        return File.stub(source).object_id


def _of_prefix(session: Session, text: str) -> str:
    if len(text) < PREFIX_LENGTH_MIN:
        return text
    matching = [object_id for object_id in session.session_index if object_id.startswith(text)]
    if len(matching) > 1:
        listed = ", ".join(matching[:NAMED_MAX])
        more = " …" if len(matching) > NAMED_MAX else ""
        raise Incorrect(
            f"{len(matching)} objects begin with {text}: give a longer prefix ({listed}{more})"
        )
    return matching[0] if matching else text
