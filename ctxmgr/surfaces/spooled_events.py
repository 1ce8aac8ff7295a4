"""Stores the events of hooks that wait for a store, before anybody looks at it. Commits."""

import asyncio
import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.core.store.urls import store_url
from ctxmgr.errors import CtxmgrError, Incorrect
from ctxmgr.integrations.agents.spool import DRAINER, is_pending, spool_origins, try_lock
from ctxmgr.settings import state_dir
from ctxmgr.stores.sqlite.connection import parse_url

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.integrations.agents.drain import Drained
    from ctxmgr.integrations.agents.events import AgentEvent

WAIT_SECONDS: Final = 5.0
"""How long a command waits for another process that stores the events."""

POLL_SECONDS: Final = 0.05

LINGER_SECONDS: Final = 20.0
"""How long a process that a hook started waits for further events: the next call of an agent mostly
comes sooner, and starting again takes longer than storing a call."""

LINGER_POLL_SECONDS: Final = 0.2

SERVER_POLL_SECONDS: Final = 1.0
"""How often a server looks for events."""

logger = logging.getLogger(__name__)


def spools_of(app: "App") -> list[Path]:
    """Return the folders in which events wait, or waited, for the store of the settings."""
    here = _place(app.loaded.settings.store, str(Path.cwd()))
    return [
        Path(folder)
        for folder, url, base in spool_origins(str(state_dir()))
        if _place(url, base) == here
    ]


async def store_events(app: "App") -> "Drained":
    """Store what waits, or wait for the process that does; return what was stored here.

    ``CtxmgrError`` if the store cannot be opened or written: then nothing is lost.
    """
    from ctxmgr.integrations.agents.drain import Drained

    stored = Drained()
    for folder in spools_of(app):
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while is_pending(str(folder)):
            app.create = True
            done = await _drain(app, folder)
            if done is not None:
                stored += done
                break
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(POLL_SECONDS)
    return stored


async def keep_storing(app: "App") -> None:
    """Store what waits and what arrives soon after, until a session ends.

    At once if another process does so.
    """
    clock = asyncio.get_running_loop().time
    with ExitStack() as locks:
        held = [try_lock(str(folder), DRAINER) for folder in spools_of(app)]
        for lock in filter(None, held):
            locks.enter_context(lock)
        if held and not any(held):
            return
        idle_since = clock()
        while clock() - idle_since < LINGER_SECONDS:
            began = clock()
            stored = await store_events(app)
            if stored.ended:
                return
            if stored.events:
                idle_since = clock()
            # A long session takes longer to open: leave the machine to others in between.
            pause = clock() - began if stored.events else 0.0
            await asyncio.sleep(max(LINGER_POLL_SECONDS, pause))


async def store_events_forever(app: "App") -> None:
    """Store what hooks report, until cancelled; a failure is logged, and the events wait."""
    failure = ""
    while True:
        try:
            await store_events(app)
            failure = ""
        except (CtxmgrError, OSError) as error:
            if str(error) != failure:
                logger.warning("events of hooks wait: %s", error)
            failure = str(error)
        await asyncio.sleep(SERVER_POLL_SECONDS)


async def _drain(app: "App", folder: Path) -> "Drained | None":
    from ctxmgr.integrations.agents.drain import Drain

    app.say("storing the events of hooks")
    drain = Drain(
        folder=folder,
        store=await app.store(),
        project_of=lambda event: project_of(app, event),
        audit=app.audit_folder(),
    )
    return await drain.run()


def project_of(app: "App", event: "AgentEvent") -> Path:
    """Return the project's folder: that of the client, or that of the session's first event.

    Later events do not count: their folder is wherever the agent has changed to. A subagent works
    in the project of its session.
    """
    from ctxmgr.surfaces.local_state import folder_of, remember_folder

    known = None if event.project else folder_of(app, event.session)
    if known is None and not event.project and event.session != event.client_session:
        parent = folder_of(app, event.client_session)
        if parent is not None:
            return remember_folder(app, event.session, folder=Path(parent.folder))
    if known is not None:
        return Path(known.folder)
    folder = Path(event.project or event.directory)
    try:
        text = os.fsencode(folder).decode()
    except UnicodeError as error:
        raise Incorrect(f"the project's folder {str(folder)!r:.200} is not valid UTF-8") from error
    if not folder.is_absolute() or "\0" in text:
        raise Incorrect(f"the project's folder must be an absolute path, not {str(folder)!r:.200}")
    return remember_folder(app, event.session, folder=folder)


def _place(url: str, base: str) -> str:
    """Return what identifies a store: the path of its file, or its URL."""
    try:
        normal = store_url(url)
    except CtxmgrError:
        return url
    path = parse_url(normal).path if normal.startswith("sqlite:") else None
    return normal if path is None else str(Path(base, path))
