"""The backend of Anthropic's memory tool (``memory_20250818``) on a store. Commits.

Memory files are documents that are found by path, and every version is kept. A path is only a name,
but a path that would leave ``/memories`` is rejected, as the tool's documentation demands.

    a file      its lines, numbered from 1 and right-aligned in six columns
    a folder    sizes and paths of two levels, without hidden names

The model was trained on these formats and messages, so they are those of the tool's documentation.
Errors of the model are reported to it as ``ToolError``; an unavailable store raises.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from ctxmgr import (
    Conflict,
    Delete,
    ExtraMissing,
    Incorrect,
    Match,
    NotFound,
    Order,
    Put,
    Query,
    Range,
    Store,
)
from ctxmgr.core.store.documents import Document
from ctxmgr.integrations.document_kinds import MEMORY_FILE

try:
    from anthropic.lib.tools import BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types import beta
except ImportError as error:
    raise ExtraMissing(extra="anthropic") from error

ROOT: Final = "/memories"

FILES_MAX: Final = 1_000
"""Files in a folder that is viewed, renamed or deleted."""

LISTED_LEVELS: Final = 2
"""Levels of a folder that are listed."""

SNIPPET_LINES: Final = 2
"""Lines shown before and after a change."""

_UNITS: Final = ("B", "K", "M", "G")
_UNIT_BYTES: Final = 1024


class MemoryTool(BetaAsyncAbstractMemoryTool):
    """A memory tool for ``run_tools(…, tools=[…])``; ``scope`` separates users or projects."""

    def __init__(self, store: Store, *, scope: str = "default") -> None:
        super().__init__()
        self._files = MemoryFiles(store, scope=scope)

    async def execute(self, command: beta.BetaMemoryTool20250818Command) -> str:
        """Execute a command and return its output."""
        try:
            output = await super().execute(command)
        except Conflict as error:
            raise ToolError("The file was changed meanwhile; view it and try again.") from error
        except (Incorrect, NotFound) as error:
            raise ToolError(f"Error: {error}") from error
        assert isinstance(output, str)
        return output

    async def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
        path = _check_path(command.path)
        files = await self._files.at(path)
        if path in files:
            return _file_view(path, files[path], view_range=command.view_range)
        if not files and path != ROOT:
            raise NotFound(f"The path {path} does not exist. Please provide a valid path.")
        return _folder_view(path, files)

    async def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
        path = _check_path(command.path)
        if path == ROOT or await self._files.at(path):
            raise Incorrect(f"File {path} already exists")
        await self._files.write(path, command.file_text)
        return f"File created successfully at: {path}"

    async def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
        path, old = _check_path(command.path), command.old_str
        text, token = await self._files.read(path)
        parts = text.split(old) if old else [text]
        if len(parts) != 2:  # noqa: PLR2004 (the text before and after the only occurrence)
            lines = [old.join(parts[:n]).count("\n") + 1 for n in range(1, len(parts))]
            why = f"is in lines {lines}, not once" if lines else f"is not in {path} verbatim"
            raise Incorrect(f"No replacement was performed: old_str `{old}` {why}.")
        changed = command.new_str.join(parts)
        await self._files.write(path, changed, token=token)
        line = parts[0].count("\n") + 1
        snippet = _numbered(changed.split("\n"), max(1, line - SNIPPET_LINES), line + SNIPPET_LINES)
        return f"The memory file has been edited.\n{snippet}"

    async def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
        path, position = _check_path(command.path), command.insert_line
        text, token = await self._files.read(path)
        lines = text.removesuffix("\n").split("\n") if text else []
        if not 0 <= position <= len(lines):
            raise Incorrect(f"Invalid `insert_line`: {position} is not within [0, {len(lines)}].")
        lines.insert(position, command.insert_text.removesuffix("\n"))
        await self._files.write(path, "\n".join([*lines, ""]), token=token)
        return f"The file {path} has been edited."

    async def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
        path = _check_path(command.path)
        await self._files.delete(await self._below_root(path))
        return f"Successfully deleted {path}"

    async def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
        old, new = _check_path(command.old_path), _check_path(command.new_path)
        files = await self._below_root(old)
        if new == ROOT or new.startswith(f"{old}/") or await self._files.at(new):
            raise Incorrect(f"The destination {new} already exists, or lies in {old}")
        await self._files.move(files, old=old, new=new)
        return f"Successfully renamed {old} to {new}"

    async def _below_root(self, path: str) -> dict[str, str]:
        files = await self._files.at(path)
        if not files or path == ROOT:
            raise NotFound(f"The path {path} does not exist, or is {ROOT} itself")
        return files


class MemoryFiles:
    """The memory files of one scope, as texts by path."""

    def __init__(self, store: Store, *, scope: str) -> None:
        self._store = store
        self._scope = scope

    async def at(self, path: str) -> dict[str, str]:
        """Return the file at a path, or all files below it; empty if there are none."""
        low, high = path, path + "0"  # "0" follows "/" in ASCII
        query = Query(
            MEMORY_FILE, {"scope": self._scope}, Range("path", low, high), order=Order("path")
        )
        page = await self._store.find(query, limit=FILES_MAX)
        if page.cursor is not None:
            raise Incorrect(f"{path} has more than {FILES_MAX} files; name a folder in it")
        texts = {version.document["path"]: version.document["text"] for version in page.versions}
        # The range also covers names that continue the last part of the path, such as "notes.md".
        return {name: text for name, text in texts.items() if f"{name}/".startswith(f"{path}/")}

    async def read(self, path: str) -> tuple[str, str | None]:
        """Return a file's text and the token of its version; ``NotFound`` if it does not exist."""
        version = await self._store.get(self._id(path))
        if version is None:
            raise NotFound(f"The path {path} does not exist. Please provide a valid path.")
        return version.document["text"], version.token

    async def write(self, path: str, text: str, *, token: str | None = None) -> None:
        """Store a new version; ``Conflict`` unless the token is that of the current version."""
        await self._store.commit([Match(self._id(path), token), Put(self._document(path, text))])

    async def delete(self, paths: Mapping[str, str]) -> None:
        """Delete the files in one transaction. Their history is kept."""
        await self._store.commit([Delete(self._id(path)) for path in paths])

    async def move(self, files: Mapping[str, str], *, old: str, new: str) -> None:
        """Move the files from below ``old`` to below ``new`` in one transaction."""
        targets = {new + path.removeprefix(old): text for path, text in files.items()}
        absent = [Match(self._id(path), None) for path in targets]
        puts = [Put(self._document(path, text)) for path, text in targets.items()]
        await self._store.commit([*absent, *(Delete(self._id(path)) for path in files), *puts])

    def _id(self, path: str) -> str:
        return f"{MEMORY_FILE}:{self._scope}:{path}"

    def _document(self, path: str, text: str) -> Document:
        return {
            "xt/id": self._id(path),
            "type": MEMORY_FILE,
            "scope": self._scope,
            "path": path,
            "text": text,
        }


def _check_path(path: str) -> str:
    """Return the path without a trailing slash; ``Incorrect`` unless it is at or below the root."""
    clean = path.removesuffix("/") if path != "/" else path
    parts = clean.split("/")
    if parts[:2] != ["", ROOT[1:]]:
        raise Incorrect(f"{path!r:.200} is not {ROOT} and not below it")
    decoded = unquote(clean).replace("\\", "/").split("/")
    if {"", ".", ".."} & set(parts[1:]) or {".", ".."} & set(decoded) or "\0" in clean:
        raise Incorrect(f"{path!r:.200} would leave {ROOT}, or has an empty part")
    return clean


def _file_view(path: str, text: str, *, view_range: Sequence[int] | None) -> str:
    """Return numbered lines: all, or those of ``view_range``, whose end may be -1 for the last."""
    match view_range:
        case [first, last]:
            pass
        case _:
            first, last = 1, -1
    lines = text.split("\n")
    first, last = max(first, 1), len(lines) if last == -1 else last
    return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first, last)}"


def _folder_view(path: str, files: Mapping[str, str]) -> str:
    """Return sizes and paths below a folder; ``files`` holds texts by path."""
    sizes = {path: 0}
    for name, text in sorted(files.items()):
        parts = name.removeprefix(path).strip("/").split("/")
        if any(part.startswith(".") for part in parts):
            continue
        size = len(text.encode())
        sizes[path] += size
        for depth in range(1, min(LISTED_LEVELS, len(parts)) + 1):
            listed = "/".join([path, *parts[:depth]]) + ("/" if depth < len(parts) else "")
            sizes[listed] = sizes.get(listed, 0) + size
    lines = "\n".join(f"{_size(size)}\t{name}" for name, size in sizes.items())
    return (
        f"Here're the files and directories up to {LISTED_LEVELS} levels deep in {path}, "
        f"excluding hidden items and node_modules:\n{lines}"
    )


def _numbered(lines: Sequence[str], first: int, last: int) -> str:
    numbered = enumerate(lines[first - 1 : last], start=first)
    return "\n".join(f"{number:6d}\t{line}" for number, line in numbered)


def _size(size: float) -> str:
    unit = 0
    while size >= _UNIT_BYTES and unit < len(_UNITS) - 1:
        size, unit = size / _UNIT_BYTES, unit + 1
    return f"{size:.1f}".removesuffix(".0") + _UNITS[unit]
