"""The backend of Anthropic's memory tool (``memory_20250818``) on a store. Commits.

What the model did wrong is told to it as a ``ToolError``; a store that is away is an error of ours.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ctxmgr import Conflict, Incorrect, NotFound, Store
from ctxmgr.errors import ExtraMissing
from ctxmgr.integrations.memory_files import ROOT, MemoryFiles, checked
from ctxmgr.integrations.memory_views import file_view, folder_view, snippet

try:
    from anthropic.lib.tools import BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types import beta
except ImportError as error:
    raise ExtraMissing("anthropic", extra="anthropic") from error


class MemoryTool(BetaAsyncAbstractMemoryTool):
    """Give it to ``run_tools(…, tools=[…])``; ``scope`` keeps users or projects apart."""

    def __init__(self, store: Store, *, scope: str = "default") -> None:
        super().__init__()
        self._files = MemoryFiles(store, scope=scope)

    async def execute(self, command: beta.BetaMemoryTool20250818Command) -> str:
        """Carry out a command and say what came of it."""
        with _told_to_the_model():
            answer = await super().execute(command)
            assert isinstance(answer, str)
            return answer

    async def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
        path = checked(command.path)
        found = await self._files.at(path)
        if path in found:
            return file_view(path, found[path], shown=command.view_range)
        if not found and path != ROOT:
            raise NotFound(f"The path {path} does not exist. Please provide a valid path.")
        return folder_view(path, found)

    async def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
        path = checked(command.path)
        if path == ROOT or await self._files.at(path):
            raise Incorrect(f"File {path} already exists")
        await self._files.write(path, command.file_text)
        return f"File created successfully at: {path}"

    async def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
        path, old = checked(command.path), command.old_str
        text, token = await self._files.read(path)
        parts = text.split(old) if old else [text]
        if len(parts) != 2:  # noqa: PLR2004 (what stands before it, and after it)
            lines = [old.join(parts[:n]).count("\n") + 1 for n in range(1, len(parts))]
            why = f"is in lines {lines}, not once" if lines else f"is not in {path} verbatim"
            raise Incorrect(f"No replacement was performed: old_str `{old}` {why}.")
        changed = command.new_str.join(parts)
        await self._files.write(path, changed, token=token)
        return f"The memory file has been edited.\n{snippet(changed, at=parts[0].count(chr(10)))}"

    async def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
        path, place = checked(command.path), command.insert_line
        text, token = await self._files.read(path)
        lines = text.removesuffix("\n").split("\n") if text else []
        if not 0 <= place <= len(lines):
            raise Incorrect(f"Invalid `insert_line`: {place} is not within [0, {len(lines)}].")
        lines.insert(place, command.insert_text.removesuffix("\n"))
        await self._files.write(path, "\n".join([*lines, ""]), token=token)
        return f"The file {path} has been edited."

    async def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
        path = checked(command.path)
        await self._files.delete(await self._below_root(path))
        return f"Successfully deleted {path}"

    async def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
        old, new = checked(command.old_path), checked(command.new_path)
        found = await self._below_root(old)
        if new == ROOT or new.startswith(f"{old}/") or await self._files.at(new):
            raise Incorrect(f"The destination {new} already exists, or lies in {old}")
        await self._files.move(found, old=old, new=new)
        return f"Successfully renamed {old} to {new}"

    async def _below_root(self, path: str) -> dict[str, str]:
        found = await self._files.at(path)
        if not found or path == ROOT:
            raise NotFound(f"The path {path} does not exist, or is {ROOT} itself")
        return found


@contextmanager
def _told_to_the_model() -> Iterator[None]:
    try:
        yield
    except Conflict as error:
        raise ToolError("The file was changed meanwhile; view it and try again.") from error
    except (Incorrect, NotFound) as error:
        raise ToolError(f"Error: {error}") from error
