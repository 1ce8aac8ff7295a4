"""What this machine keeps about a store: its search index, and the folders of its sessions.

`ctxmgr run` and `ctxmgr hook` remember the folder of a session, in the state folder. What a store
says of a session's mounts is not used to read files: others may have written it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.core.files.mount_settings import MountSetting
from ctxmgr.core.objects.envelope import check_session_id
from ctxmgr.core.store.urls import redact_url, store_url
from ctxmgr.errors import Incorrect
from ctxmgr.settings import cache_dir, state_dir
from ctxmgr.stores.sqlite.connection import parse_url
from ctxmgr.surfaces.scopes import parse_session_id
from ctxmgr.trust import SessionFolder

if TYPE_CHECKING:
    from ctxmgr.app import App

STORE: Final = "the store"
"""Stands for the store's URL and files where an agent reads."""


def index_file(url: str) -> Path:
    """Return the path of a store's search index.

    That of an SQLite store is the file of the same name plus ``.search``; that of any other store
    is in the cache folder, named by the hash of its URL.
    """
    path = parse_url(url).path if url.startswith("sqlite:") else None
    if path is not None:
        return path.with_name(f"{path.name}.search")
    return cache_dir() / "search" / f"{hashlib.sha256(url.encode()).hexdigest()}.search"


def hide_store(text: str, url: str) -> str:
    """Return a text for an agent, without the URL and the files of the store."""
    path = parse_url(url).path if url.startswith("sqlite:") else None
    names = [] if path is None else [str(path.absolute()), str(path)]
    for name in sorted({url, redact_url(url), *names}, key=len, reverse=True):
        text = text.replace(name, STORE)
    return text


def store_key(url: str) -> str:
    """Return what identifies a store on this machine; a relative path is made absolute."""
    return str(index_file(url).absolute())


def make_store_absolute(app: "App") -> None:
    """Name the store by an absolute path, before the process goes to another folder."""
    settings = app.loaded.settings
    path = parse_url(settings.store).path if settings.store.startswith("sqlite:") else None
    if path is not None:
        settings = settings.model_copy(update={"store": store_url(str(path.absolute()))})
        app.loaded = replace(app.loaded, settings=settings)


def declared_mounts(app: "App", session: str, given: Sequence[str] = ()) -> list[MountSetting]:
    """Return the mounts that were given, or else the folder that the session works in here."""
    if given:
        return [_mount(text) for text in given]
    known = folder_of(app, parse_session_id(session))
    if known is None:
        return []
    return [MountSetting(agentPrefix=known.agent_prefix, canonicalPrefix=known.folder)]


def folder_of(app: "App", session_id: str) -> SessionFolder | None:
    """Return the folder in which this machine ran a session; None if it never did."""
    store = store_key(app.loaded.settings.store)
    return SessionFolder.load(state_dir(), store=store, session=session_id)


def remember_folder(
    app: "App", session_id: str, *, folder: Path, agent_prefix: str | None = None
) -> Path:
    """Remember the folder in which a session works here; return it without symbolic links.

    Without ``agent_prefix`` the agent sees the folder at its path on this machine.
    """
    check_session_id(session_id)  # every later session of the project reads what is remembered
    real = folder.resolve()
    SessionFolder(
        store=store_key(app.loaded.settings.store),
        session=session_id,
        folder=str(real),
        agent_prefix=agent_prefix or str(real),
    ).save(state_dir())
    return real


def project_sessions(app: "App", folder: Path) -> list[str]:
    """Return the ids of the sessions that worked in a folder of this machine, or below it.

    The home folder and those above it contain all projects, and some clients start their servers
    there: then only the sessions of that very folder count.
    """
    store = store_key(app.loaded.settings.store)
    found = SessionFolder.below(state_dir(), folder, store=store)
    if Path.home().resolve().is_relative_to(folder):
        found = [entry for entry in found if Path(entry.folder) == folder]
    return [entry.session for entry in found]


def _mount(text: str) -> MountSetting:
    agent, separator, folder = text.partition("=")
    if not separator or not agent.startswith("/") or not folder:
        raise Incorrect(f"--mount must be AGENT=FOLDER with an absolute AGENT, not {text!r:.200}")
    return MountSetting(agentPrefix=agent, canonicalPrefix=str(Path(folder).resolve()))
