"""Memory files in a store: texts by path, with every version kept. Commits.

There is no folder behind them: a path is a name. One that tries to leave ``/memories`` is refused
all the same, because whoever wrote it believes in folders.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from ctxmgr import Delete, Incorrect, Match, NotFound, Order, Put, Query, Range, Store
from ctxmgr.core.documents import Document
from ctxmgr.integrations.kinds import MEMORY_FILE

ROOT: Final = "/memories"

FILES_MAX: Final = 1_000
"""Of a folder that is shown, renamed or deleted."""


def checked(path: str) -> str:
    """Return the path without a slash at its end; ``Incorrect`` unless it is below the root."""
    clean = path.removesuffix("/") if path != "/" else path
    parts = clean.split("/")
    if parts[:2] != ["", ROOT[1:]]:
        raise Incorrect(f"{path!r:.200} is not {ROOT} and not below it")
    decoded = unquote(clean).replace("\\", "/").split("/")
    if {"", ".", ".."} & set(parts[1:]) or {".", ".."} & set(decoded) or "\0" in clean:
        raise Incorrect(f"{path!r:.200} would leave {ROOT}, or has an empty part")
    return clean


class MemoryFiles:
    """The memory files of one scope."""

    def __init__(self, store: Store, *, scope: str) -> None:
        self._store = store
        self._scope = scope

    async def at(self, path: str) -> dict[str, str]:
        """Return the text of the file there, or of all files below, by path; none: nothing."""
        low, high = path, path + "0"  # "0" is next to "/"
        query = Query(
            MEMORY_FILE, {"scope": self._scope}, Range("path", low, high), order=Order("path")
        )
        page = await self._store.find(query, limit=FILES_MAX)
        if page.cursor is not None:
            raise Incorrect(f"{path} has more than {FILES_MAX} files; name a folder in it")
        found = {each.document["path"]: each.document["text"] for each in page.versions}
        return {each: text for each, text in found.items() if f"{each}/".startswith(f"{path}/")}

    async def read(self, path: str) -> tuple[str, str | None]:
        """Return a file's text and the token of this version; ``NotFound`` if there is none."""
        version = await self._store.get(self._id(path))
        if version is None:
            raise NotFound(f"The path {path} does not exist. Please provide a valid path.")
        return version.document["text"], version.token

    async def write(self, path: str, text: str, *, token: str | None = None) -> None:
        """Store a new version; ``Conflict`` unless the one before it is that of the token."""
        await self._store.commit([Match(self._id(path), token), Put(self._document(path, text))])

    async def delete(self, paths: Mapping[str, str]) -> None:
        """End the files, all at once. Their history stays."""
        await self._store.commit([Delete(self._id(path)) for path in paths])

    async def move(self, files: Mapping[str, str], *, old: str, new: str) -> None:
        """Give the files below ``old`` names below ``new``, all at once."""
        targets = {new + path.removeprefix(old): text for path, text in files.items()}
        absent = [Match(self._id(path), None) for path in targets]
        puts = [Put(self._document(path, text)) for path, text in targets.items()]
        await self._store.commit([*absent, *(Delete(self._id(path)) for path in files), *puts])

    def _id(self, path: str) -> str:
        return f"{MEMORY_FILE}:{self._scope}:{path}"

    def _document(self, path: str, text: str) -> Document:
        named = {"xt/id": self._id(path), "type": MEMORY_FILE, "scope": self._scope}
        return {**named, "path": path, "text": text}
