"""``ctxmgr setup``: hooks and MCP server of a coding agent. Writes the agent's settings."""

import difflib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.integrations.setup.installer import SettingsChange

ClientName = Literal["claude-code", "codex", "opencode", "gemini", "cursor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSetup:
    """What was written, or would be."""

    client: str
    changes: str
    """The differences, as a unified diff."""
    files: tuple[str, ...]
    """The files that were changed, or would be."""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The report for a person."""
        lines = [self.changes] if self.changes else ["nothing to change\n"]
        return "".join([*lines, *(f"note: {note}\n" for note in self.notes)])


async def setup(
    app: "App",
    client: Annotated[ClientName, Param("The coding agent.")],
    *,
    print_: Annotated[bool, Param("Show what would be written, and write nothing.")] = False,
    remove: Annotated[bool, Param("Remove what an earlier setup added.")] = False,
    proxy: Annotated[
        str | None,
        Param("Send the requests of claude-code through this proxy.", metavar="URL"),
    ] = None,
) -> ClientSetup:
    """Register hooks and the MCP server with a coding agent.

    Adds them to the settings in the user's home folder, with the full path of this program and the
    URL of the store, and shows the difference. Everything else in the files stays as it is,
    comments included; --remove removes exactly what was added. A file that is damaged is not
    touched.
    """
    import asyncio

    return await asyncio.to_thread(_set_up, app, client, dry_run=print_, remove=remove, proxy=proxy)


def _set_up(
    app: "App", client: str, *, dry_run: bool, remove: bool, proxy: str | None
) -> ClientSetup:
    from ctxmgr.integrations.setup.clients import Installation, client_files
    from ctxmgr.integrations.setup.installer import (
        apply_removal,
        apply_setup,
        plan_removal,
        plan_setup,
    )
    from ctxmgr.settings import state_dir

    app.loaded.require_trusted("store")
    installation = Installation(
        program=_program(),
        store=_absolute_store(app.loaded.settings.store) if not remove else "",
        home=PurePosixPath(Path.home()),
        environment=os.environ,
        proxy=proxy,
    )
    files, receipt = client_files(client, installation), state_dir() / "setup" / f"{client}.json"
    changes = (plan_removal if remove else plan_setup)(files, receipt)
    if not dry_run:
        (apply_removal if remove else apply_setup)(changes, receipt)
    notes = [note for change in changes for note in change.notes]
    if client == "codex" and not remove:
        notes.append("Codex runs these hooks once you have trusted them: start it, and open /hooks")
    return ClientSetup(
        client=client,
        changes="".join(map(_difference, changes)),
        files=tuple(str(change.path) for change in changes if change.is_change),
        notes=tuple(notes),
    )


def _program() -> str:
    """Return the path of this program, whatever the PATH of a client is."""
    beside = Path(sys.executable).parent / "ctxmgr"
    found = str(beside) if beside.is_file() else shutil.which("ctxmgr")
    if found is None:
        raise Incorrect(f"there is no program ctxmgr beside {sys.executable}, nor on the PATH")
    return str(Path(found).absolute())


def _absolute_store(url: str) -> str:
    from ctxmgr.core.store.urls import redact_url, store_url
    from ctxmgr.stores.sqlite.connection import parse_url

    if not url.startswith("sqlite:"):
        if redact_url(url) != url:
            raise Incorrect(
                f"{redact_url(url)} has credentials, which would be written to the client's"
                " settings and seen in its arguments: name the store without them, and set a token"
            )
        return url
    path = parse_url(url).path
    if path is None:
        raise Incorrect("a store in memory ends with its process: name a file with --store")
    return store_url(str(path.absolute()))


def _difference(change: "SettingsChange") -> str:
    old = (change.before or "").splitlines(keepends=True)
    new = (change.after or "").splitlines(keepends=True)
    names = (str(change.path), str(change.path))
    lines = difflib.unified_diff(old, new, *names, n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
