"""Composition root: settings in, a running store or client out. Opens what it is asked for.

    sqlite:///relative.db   sqlite:////absolute.db   sqlite://:memory:
    xtdb+http://host:port   xtdb+https://host

Importing this is cheap and does nothing. Drivers and settings are imported by the call that needs
them, so that whoever uses one store never loads the other, and ``--help`` answers at once.
"""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from ctxmgr.core.assembly import Contributor
from ctxmgr.core.collapse import Window
from ctxmgr.core.events import Listener
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.objects import KINDS
from ctxmgr.core.sandbox import Sandbox
from ctxmgr.core.secrets import Masker, Secrets
from ctxmgr.core.store import Kind, Store
from ctxmgr.errors import Incorrect

if TYPE_CHECKING:
    from ctxmgr.core.client import Client
    from ctxmgr.core.surroundings import Recall as RecallTool
    from ctxmgr.core.surroundings import Surroundings
    from ctxmgr.settings import Loaded
    from ctxmgr.stores.fts5 import Fts5Index

URL_EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sqlite": (
            "sqlite:///relative/file.db",
            "sqlite:////absolute/file.db",
            "sqlite://:memory:",
        ),
        "xtdb+http": ("xtdb+http://127.0.0.1:3000",),
        "xtdb+https": ("xtdb+https://xtdb.example.org",),
    }
)
"""Every scheme that ``open_store`` knows, each with URLs to copy."""


async def open_store(
    url: str | None = None,
    *,
    kinds: Mapping[str, Kind] = KINDS,
    token: str | None = None,
    ca_file: Path | None = None,
) -> Store:
    """Open the store that the URL names; None: the one of the settings.

    The caller closes it, best with ``async with await open_store(…) as store``. A URL that cannot
    be read, or has an unknown scheme, is ``Incorrect`` and lists the known ones.
    """
    refuse_windows()
    if url is None:
        from ctxmgr.settings import load_settings

        return await _open_loaded(load_settings(token=token, ca_file=ca_file), kinds)
    return await _open(url, kinds=kinds, token=token, ca_file=ca_file)


@asynccontextmanager
async def connect(
    url: str | None = None,
    *,
    mounts: Iterable[Mapping[str, Any]] = (),
    sandbox: Sandbox | None = None,
    directory: str | None = None,
    filesystem_id: str | None = None,
    window: Window | None = None,
    listeners: Iterable[Listener] = (),
    contributors: Iterable[Contributor] = (),
    fingerprints: Path | None = None,
    search: Path | None = None,
    secrets: Secrets = Secrets.MASK,
    tracking: bool = True,
    store: Store | None = None,
) -> AsyncIterator["Client"]:
    """Open a client for one agent, on the store that the URL names or on one that is open.

    ``mounts`` say which of the agent's paths are which of the host's (``agentPrefix``,
    ``canonicalPrefix``, optionally ``filesystemId``); a sandbox knows its own. With neither there
    is no sandbox, and the agent's paths are the host's. ``filesystem_id`` names the filesystem of a
    sandbox that we do not run. ``directory`` is where the agent's relative paths begin.
    ``fingerprints`` is a file that spares reading unchanged files after a restart. ``search`` is a
    file for a search index, made from the store; with it the agent is offered ``recall``.
    ``secrets`` says what policies show of secrets, and whether contents are stored with them.
    Without ``tracking`` files are looked at only when the agent reads them and when a session is
    resumed.
    """
    refuse_windows()
    where = sandbox.mounts if sandbox else _mounts(tuple(mounts), filesystem_id)
    async with AsyncExitStack() as closing:
        if store is None:
            store = await closing.enter_async_context(await open_store(url))
        client = _client(
            store,
            mounts=where,
            fingerprints=fingerprints,
            listeners=listeners,
            tracking=tracking,
            masker=Masker(secrets),
        )
        around = client.surroundings
        around.sandbox, around.directory = sandbox, directory or _directory(where)
        around.window = window or Window()
        around.contributors = tuple(contributors)
        if search is not None:
            around.recall = await _recall(around, search, closing)
        yield await closing.enter_async_context(client)


@dataclass(slots=True)
class App:
    """What an operation works on: the settings, one store opened when first asked for."""

    loaded: "Loaded"
    say: Callable[[str], None] = lambda _: None
    """Tells a person what is being done; does nothing where nobody looks."""
    write: Callable[[str], None] = lambda _: None
    """Shows text as it comes, for an operation that streams; nowhere where nobody looks."""
    create: bool = True
    """Make a store that is not there yet; not for reading: a mistyped path would leave one."""
    masker: Masker = field(default_factory=Masker)
    """What agents and their providers are told passes here; it remembers what it has masked."""
    _store: Store | None = field(default=None, init=False)
    _indexes: "list[Fts5Index]" = field(default_factory=list, init=False)
    """The last is in use; those before it may still be, by a search that began earlier."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def store(self) -> Store:
        """The store of the settings."""
        if self._store is None:
            self._store = await _open_loaded(self.loaded, KINDS, create=self.create)
        return self._store

    async def search_index(self, path: Path) -> "Fts5Index":
        """The search index in that file, which stays open; anew if somebody has deleted it."""
        from ctxmgr.stores.fts5 import Fts5Index

        async with self._opening:
            if not self._indexes or not self._indexes[-1].is_at(path):
                self._indexes.append(await Fts5Index.open(path))
            return self._indexes[-1]

    async def close(self) -> None:
        while self._indexes:
            await self._indexes.pop().close()
        if self._store is not None:
            await self._store.close()
            self._store = None

    async def __aenter__(self) -> Self:
        refuse_windows()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def refuse_windows() -> None:
    """Say at the start what would otherwise fail somewhere in the middle."""
    if sys.platform == "win32":
        raise Incorrect("ctxmgr does not run on Windows; use Linux, macOS, or Linux inside WSL")


def _mounts(mounts: tuple[Mapping[str, Any], ...], filesystem_id: str | None) -> Mounts:
    from ctxmgr.core.filesystem_ids import container_filesystem_id, host_filesystem_id
    from ctxmgr.core.mount_settings import read_mappings

    if not mounts and filesystem_id is None:
        return Mounts.of_host(host_filesystem_id())
    mappings = read_mappings(mounts, host_id=host_filesystem_id())
    # Unless it is named, nobody can know that two sandboxes are one: each is its own.
    own = filesystem_id or container_filesystem_id(uuid.uuid4().hex)
    return Mounts.of_sandbox(mappings, own_id=own)


def _directory(mounts: Mounts) -> str:
    if not mounts.sandboxed:
        return str(Path.cwd())
    return mounts.mappings[0].agent_prefix if mounts.mappings else "/"


def _client(
    store: Store,
    *,
    mounts: Mounts,
    fingerprints: Path | None,
    listeners: Iterable[Listener],
    tracking: bool,
    masker: Masker,
) -> "Client":
    from ctxmgr.core.client import Client
    from ctxmgr.core.fingerprints import Fingerprints
    from ctxmgr.core.hostfiles import HostFiles
    from ctxmgr.core.indexing import Indexing
    from ctxmgr.core.surroundings import Surroundings
    from ctxmgr.messages import anthropic, openai, text

    files = HostFiles(mounts)
    known = Fingerprints(fingerprints)
    known.load()
    around = Surroundings(
        store=store,
        files=files,
        indexing=Indexing(store, files, fingerprints=known, kept=masker.stored),
        masker=masker,
        forms={"text": text.payload, "anthropic": anthropic.payload, "openai": openai.payload},
    )
    return Client(around, fingerprints=known, listeners=listeners, tracking=tracking)


async def _recall(around: "Surroundings", path: Path, closing: AsyncExitStack) -> "RecallTool":
    from ctxmgr.core.recall import Recall
    from ctxmgr.stores.fts5 import Fts5Index

    index = await Fts5Index.open(path)
    closing.push_async_callback(index.close)
    recall = Recall(
        store=around.store, index=index, masker=around.masker, display_path=around.display_path
    )
    return recall.search


async def _open_loaded(
    loaded: "Loaded", kinds: Mapping[str, Kind], *, create: bool = True
) -> Store:
    from ctxmgr.settings import data_dir

    if create and loaded.origins["store"] == "default":
        # Only our own folder: a mistyped path elsewhere must not leave folders behind.
        data_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = loaded.settings
    token = settings.token.get_secret_value() if settings.token else None
    return await _open(
        settings.store, kinds=kinds, token=token, ca_file=settings.ca_file, create=create
    )


async def _open(
    url: str,
    *,
    kinds: Mapping[str, Kind],
    token: str | None,
    ca_file: Path | None,
    create: bool = True,
) -> Store:
    if _scheme(url) == "sqlite":
        from ctxmgr.stores.sqlite import SqliteStore

        return await SqliteStore.open(url, kinds=kinds, create=create)
    from ctxmgr.stores.xtdb import XtdbStore

    return await XtdbStore.open(url, kinds=kinds, token=token, ca_file=ca_file)


def _scheme(url: str) -> str:
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise Incorrect(f"{url!r} is no URL ({error}); {_known()}") from error
    if "://" not in url or not scheme:
        raise Incorrect(f"{url!r} is no store URL; {_known()}")
    if scheme not in URL_EXAMPLES:
        raise Incorrect(f"{scheme!r} is no kind of store; {_known()}")
    return scheme


def _known() -> str:
    return "known are " + ", ".join(url for urls in URL_EXAMPLES.values() for url in urls)
