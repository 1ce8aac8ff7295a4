"""Composition root: builds stores and clients from settings and arguments. Opens them.

    agent.db or any path    sqlite:///relative.db   sqlite:////absolute.db   sqlite://:memory:
    xtdb+http://host:port   xtdb+https://host

Importing this module is cheap. Drivers and settings are imported by the call that needs them, so
that only the store in use is loaded, and ``--help`` is fast.
"""

import asyncio
import hashlib
import logging
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.secrets.masking import Masker, Secrets
from ctxmgr.core.sessions.collapse import Window
from ctxmgr.core.store.contract import Kind, Store
from ctxmgr.core.store.urls import redact_url, store_url
from ctxmgr.errors import CtxmgrError, Denied, Incorrect, NotFound, Unavailable, requires_extra

if TYPE_CHECKING:
    from ctxmgr.audit.log import AuditLog, AuditStatus, Reviewers
    from ctxmgr.core.client.client import Client
    from ctxmgr.core.client.runtime import CommitObserver
    from ctxmgr.core.context.contributors import Contributor
    from ctxmgr.core.context.flushes import Flusher
    from ctxmgr.core.context.layer_tools import LayerTool
    from ctxmgr.core.economy.policy import Economy
    from ctxmgr.core.events.events import Listener
    from ctxmgr.core.events.listeners import ListenerFeed
    from ctxmgr.core.files.own_files import OwnFiles
    from ctxmgr.core.history.session_policy import SessionPolicy
    from ctxmgr.core.model import Model
    from ctxmgr.core.prices import PriceList
    from ctxmgr.core.sandbox import Sandbox
    from ctxmgr.experience.lenses.lens import Lenses
    from ctxmgr.experience.xdb import XDB
    from ctxmgr.knowledge.agent_notes import AgentNotes
    from ctxmgr.knowledge.config import SearchConfig
    from ctxmgr.knowledge.library import Library
    from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle
    from ctxmgr.knowledge.notes.layout import Layout
    from ctxmgr.knowledge.repository.introspection import Introspection
    from ctxmgr.knowledge.repository.memory_git import FindSecrets, MemoryGit
    from ctxmgr.knowledge.topics.topic import TopicSet
    from ctxmgr.knowledge.topics.triggers import Firing
    from ctxmgr.knowledge.transcripts.capture import ConversationCapture
    from ctxmgr.knowledge.transcripts.open_transcripts import ClosedTranscript
    from ctxmgr.memory.learning.learner import Learner
    from ctxmgr.memory.living import LivingMemory
    from ctxmgr.memory.records.principal import Principal
    from ctxmgr.search.documents import SearchResult
    from ctxmgr.search.piece_index import PieceIndex
    from ctxmgr.search.provider_vectors import ProviderEmbedder
    from ctxmgr.search.static_vectors import StaticEmbedder
    from ctxmgr.settings import LoadedSettings
    from ctxmgr.stores.fts5 import Fts5Index

AGENT: Final = "agent"
"""The name of an agent in audit records. Its session tells it from others."""

DRAIN_SECONDS: Final = 10.0
"""How long closing a client waits for its last events to be recorded; the rest comes later."""

QUIET_SECONDS: Final = 0.2
"""Without a commit, before a session is learnt from: usually its model is answering then."""

BEHIND_SECONDS: Final = 2.0
"""How far learning may be behind a client that commits all the time."""

MEMORY_SHARE: Final = 16
"""Memory gets at most one part in so many of a policy's window: 8,000 tokens of 128,000."""

LIFECYCLE_SECONDS: Final = 60.0
"""How often a server looks for what is due: schedules have minutes."""

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
"""Every scheme that ``open_store`` accepts, with examples."""


async def open_store(
    url: str | Path | None = None,
    *,
    kinds: Mapping[str, Kind] = KINDS,
    token: str | None = None,
    ca_file: Path | None = None,
    timeout_s: float | None = None,
) -> Store:
    """Open the store of a path or URL, such as ``agent.db`` or ``xtdb+http://127.0.0.1:3000``.

    Without one, the store of the settings is opened. ``kinds`` declares the fields that ``find``
    can query; the rules of ctxmgr's own kinds always apply. ``token`` and ``ca_file`` are for XTDB
    servers, as is ``timeout_s``, which bounds every call, retries included. The caller closes the
    store, best with ``async with await open_store(…) as store``. An invalid URL is ``Incorrect``.
    """
    refuse_windows()
    if url is None:
        from ctxmgr.settings import load_settings

        loaded = load_settings(token=token, ca_file=ca_file, store_timeout=timeout_s)
        return await _open_loaded(loaded, kinds)
    return await _open(url, kinds=kinds, token=token, ca_file=ca_file, timeout_s=timeout_s)


@asynccontextmanager
async def connect(
    url: str | Path | None = None,
    *,
    mounts: Iterable[Mapping[str, Any]] = (),
    sandbox: "Sandbox | None" = None,
    directory: str | None = None,
    filesystem_id: str | None = None,
    window: Window | None = None,
    listeners: "Iterable[Listener]" = (),
    contributors: "Iterable[Contributor]" = (),
    flushers: "Iterable[Flusher]" = (),
    summariser: "Model | None" = None,
    fingerprints: str | Path | None = None,
    search: str | Path | None = None,
    audit: str | Path | None = None,
    audit_lenses: "Lenses | None" = None,
    experience: "str | Path | XDB | None" = None,
    knowledge: "str | Path | Library | None" = None,
    memory: "str | Path | Principal | None" = None,
    memory_model: "Model | None" = None,
    secrets: Secrets = Secrets.MASK,
    policy: "str | Economy" = "plain",
    tracking: bool = True,
    store: Store | None = None,
    timeout_s: float | None = None,
) -> AsyncIterator["Client"]:
    """Open a client for one agent, on the store of a path or URL, or on an open ``store``.

    - ``sandbox`` runs the agent's commands, and defines its mounts.
    - ``mounts`` translate the agent's paths to the host's, for a harness that runs its own tools:
      dicts with ``agentPrefix``, ``canonicalPrefix`` and optionally ``filesystemId``. Without
      mounts and sandbox, the agent's paths are the host's.
    - ``directory`` is what the agent's relative paths are resolved against.
    - ``filesystem_id`` identifies the filesystem of a sandbox that ctxmgr does not run.
    - ``window`` sets how many tool calls the plain layout keeps in full.
    - ``listeners`` receive events; ``contributors`` add text to prompts.
    - ``flushers`` save what matters before old turns are shown as a summary, of which the model
      ``summariser`` may write a part (docs/compaction.md).
    - ``fingerprints`` is a file that avoids reading unchanged files again after a restart.
    - ``search`` is a file for a search index; with it, the agent is offered the tool ``recall``.
    - ``audit`` is the folder of an audit log, which records what happens in the store.
    - ``audit_lenses`` score what is recorded there; the log gets all scores, also hidden ones.
    - ``experience`` is the folder of an ``XDB``, or an open one; it records what happens, too.
    - ``knowledge`` is a folder of notes, or an open ``Library``: prompts show what fits of them,
      agents get tools to search and write them, and notes are written before old turns are
      summarised (docs/knowledge-context.md).
    - ``memory`` is the folder of the project, or a ``Principal``: prompts show what earlier
      sessions of this user taught, agents remember and expand, and sessions are learnt from
      (docs/memory.md). ``memory_model`` judges contradictions that rules cannot.
    - ``secrets`` says how secrets are treated (docs/secrets.md).
    - ``policy`` says how the prompts of new sessions are rendered: ``"plain"``, ``"compact"``,
      ``"economy"``, or an ``Economy``. A session that is resumed keeps its own.
    - ``timeout_s`` bounds every call of an XTDB server, retries included; by default 10 s.
    - ``tracking=False`` reads files only when the agent does and when a session is resumed.

    The store's own files, ``search``, ``fingerprints``, ``audit`` and ``experience`` are never read
    for an agent. If a sandbox or ``mounts`` would show them to it, this is ``Incorrect``.
    """
    refuse_windows()
    from ctxmgr.core.history.session_policy import read_policy

    chosen = read_policy(policy)
    async with AsyncExitStack() as closing:
        if store is None:
            kinds = KINDS if memory is None else _kinds_with_memory()
            opening = open_store(url, kinds=kinds, timeout_s=timeout_s)
            store = await closing.enter_async_context(await opening)
        client = await _client(
            store,
            closing,
            mounts=sandbox.mounts if sandbox else _mounts(tuple(mounts), filesystem_id),
            sandbox=sandbox,
            directory=directory,
            window=window or Window(),
            listeners=tuple(listeners),
            contributors=tuple(contributors),
            flushers=tuple(flushers),
            summariser=summariser,
            fingerprints=_path(fingerprints),
            search=_path(search),
            audit=_path(audit),
            audit_lenses=audit_lenses,
            experience=_path(experience),
            knowledge=_path(knowledge),
            memory=_path(memory),
            memory_model=memory_model,
            masker=Masker(secrets),
            tracking=tracking,
            policy=chosen,
        )
        yield await closing.enter_async_context(client)


_Opened = TypeVar("_Opened", "XDB", "Library", "Principal", Path)


def _path(given: "str | Path | _Opened | None") -> "Path | _Opened | None":
    """Read a path that was given as text; ``Incorrect`` if it is neither that nor opened."""
    if isinstance(given, bool | int | float | bytes):
        raise Incorrect(f"a folder or file is named by a path, not by {given!r}")
    return Path(given) if isinstance(given, str) else given


@dataclass(slots=True)
class App:
    """What an operation works with: the settings, and a store that is opened when first used."""

    loaded: "LoadedSettings"
    say: Callable[[str], None] = lambda _: None
    """Reports progress to a person; by default, does nothing."""
    write: Callable[[str], None] = lambda _: None
    """Shows streamed text to a person; by default, does nothing."""
    show: Callable[[object], None] = lambda _: None
    """Shows a part of the result to a person as soon as it is known; by default, does nothing."""
    create: bool = True
    """Create a missing store; False for reading, where a mistyped path would create one."""
    reviewer_credential: str | None = None
    """Whoever asks brought this credential for the audit log; None: that of the settings."""
    here: Path | None = None
    """Where the person is who typed a command, which may be in a folder of notes. None for servers
    and agents: they use the notes of the settings alone."""
    masker: Masker = field(default_factory=Masker)
    """Masks what is shown to agents and sent to providers; caches what it has masked."""
    _store: Store | None = field(default=None, init=False)
    _indexes: "list[Fts5Index | PieceIndex]" = field(default_factory=list, init=False)
    """The last one is current; earlier ones may be in use by searches that began before."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _memories: "dict[Principal, LivingMemory]" = field(default_factory=dict, init=False)
    """Kept open, since each reads all its memories with its first question."""

    async def store(self) -> Store:
        """The store of the settings."""
        if self._store is None:
            kinds = _kinds_with_memory()
            self._store = await _open_loaded(self.loaded, kinds, create=self.create)
        return self._store

    async def store_or_empty(self) -> Store:
        """The store of the settings; an empty one where nothing was stored on this machine yet."""
        from ctxmgr.settings import DATABASE_FILE, data_dir

        is_new = not self.create and self.loaded.origins["store"] == "default"
        if self._store is None and is_new and not (data_dir() / DATABASE_FILE).exists():
            self._store = await open_store("sqlite://:memory:")
        return await self.store()

    async def memory(self, project: Path | None = None) -> "LivingMemory":
        """What this user's agents learnt, in a project; by default, that of the current folder."""
        from ctxmgr.memory.living import LivingMemory

        owner = await asyncio.to_thread(_principal, project or Path.cwd())
        if owner not in self._memories:
            self._memories[owner] = LivingMemory(await self.store(), owner)
        return self._memories[owner]

    async def learner(self, project: Path | None = None) -> "Learner":
        """Learns from sessions of this user in a project; by default, that of this folder."""
        return _learner(await self.store(), await self.memory(project), masker=self.masker)

    @property
    def prices(self) -> "PriceList":
        """The prices of models: those of the settings, then the built-in ones."""
        from ctxmgr.core.prices import ModelPrice, PriceList

        return PriceList(
            {
                name: ModelPrice(
                    input=price.input,
                    output=price.output,
                    cache_read=_or(price.cache_read, price.input),
                    cache_write=_or(price.cache_write, price.input),
                    cache_write_1h=_or(price.cache_write_1h, price.input),
                )
                for name, price in self.loaded.settings.prices.items()
            }
        )

    async def search_index(self, path: Path) -> "Fts5Index | PieceIndex":
        """The search index in a file; stays open, and is opened again if the file was deleted."""
        async with self._opening:
            if not self._indexes or not self._indexes[-1].is_at(path):
                self._indexes.append(await _open_index(path))
            return self._indexes[-1]

    async def search_notes(
        self,
        folder: Path | None,
        query: str,
        *,
        limit: int,
        category: str | None,
        embeddings: bool = False,
    ) -> "list[SearchResult]":
        """Search the notes of a folder, by default that of the settings.

        The index is brought up to date first. With ``embeddings``, the provider's model of the
        configuration embeds them, without their secrets.
        """
        library = await _open_library(self.knowledge_folder(folder))
        self.say("comparing the index with the notes")
        embedder = self._provider_embedder(library.config.search) if embeddings else None
        return await _search_notes(library, query, limit, category, embedder=embedder)

    def _provider_embedder(self, config: "SearchConfig") -> "ProviderEmbedder":
        from ctxmgr.models.embeddings import OpenAIEmbeddings
        from ctxmgr.search.provider_vectors import ProviderEmbedder

        self.loaded.require_trusted("api", "base_url", "openai_api_key")
        settings, name = self.loaded.settings, config.embedding_model
        opened = OpenAIEmbeddings(
            name,
            dimensions=config.embedding_dimensions,
            key=settings.api_key("openai"),
            base_url=settings.base_url if settings.api == "openai" else None,
        )
        return ProviderEmbedder(
            name=f"openai/{name}",
            dimension=config.embedding_dimensions,
            vectors=opened.vectors,
            mask=lambda text: self.masker.mask(text).text,
        )

    async def agent_notes(self, folder: Path | None = None) -> "AgentNotes":
        """What agents may do with a folder of notes, by default that of the settings."""
        library = await _open_library(self.knowledge_folder(folder))
        return await _agent_notes(await self.store(), library, self.masker)

    def audit_folder(self) -> Path | None:
        """The folder of the audit log; None if there is no log there."""
        from ctxmgr.audit.folder import CONFIGURATION

        root = self._audit_root()
        configured = self.loaded.settings.audit is not None
        return root if configured or (root / CONFIGURATION).exists() else None

    async def create_audit_log(self, *, key_file: Path | None) -> "AuditStatus":
        """Create the audit log of the settings, and its signing key."""
        from ctxmgr.audit.log import AuditLog

        root = self._audit_root()
        await AuditLog.create(root, log_id=uuid.uuid4().hex, key_file=key_file)
        async with await AuditLog.open(root, be_id=AGENT, key_file=key_file) as log:
            return await log.status()

    async def audit_log(self, *, reviewers: "Reviewers | None" = None) -> "AuditLog":
        """Open the audit log of the settings; ``NotFound`` if there is none."""
        from ctxmgr.audit.log import AuditLog, nobody

        return await AuditLog.open(self._audit_root(), be_id=AGENT, reviewers=reviewers or nobody)

    def _audit_root(self) -> Path:
        from ctxmgr.settings import data_dir

        self.loaded.require_trusted("audit")
        return self.loaded.settings.audit or data_dir() / "audit"

    def experience_folder(self) -> Path | None:
        """The folder of the agent's experience; None if none is configured or there."""
        from ctxmgr.settings import data_dir

        self.loaded.require_trusted("experience")
        configured = self.loaded.settings.experience
        default = data_dir() / "xdb"
        return configured or (default if default.is_dir() else None)

    def knowledge_folder(self, folder: Path | None = None) -> Path:
        """The folder with the notes: by default that of the settings, or the one ``here`` is in.

        ``NotFound`` if there is none.
        """
        root = folder or self._default_notes()
        if root is None:
            setting = "with the setting `knowledge` (CTXMGR_KNOWLEDGE)"
            if self.here is None:
                raise NotFound(f"there is no folder with notes: name one {setting}")
            raise NotFound(
                "there is no folder with notes here: go to it, or name it as in `ctxmgr knowledge"
                f" status --folder notes` or {setting}; `ctxmgr knowledge init notes` creates one"
            )
        if not root.is_dir():
            raise NotFound(f"{root} is not a folder; `ctxmgr knowledge init {root}` creates one")
        return root

    def has_notes(self) -> bool:
        """Whether there is a folder of notes without naming one."""
        return self.loaded.settings.knowledge is not None or self._default_notes() is not None

    def _default_notes(self) -> Path | None:
        self.loaded.require_trusted("knowledge")
        configured = self.loaded.settings.knowledge
        if self.here is None:
            return configured
        from ctxmgr.knowledge.repository.setup import find_root

        try:
            found = find_root(self.here)
        except Denied:
            if configured is None:
                raise
            found = None  # it is not used, so it need not be trusted
        if configured is not None and found is not None and configured.resolve() != found:
            logging.getLogger(__name__).warning(
                "the notes are those of the setting `knowledge`, %s; pass --folder %s for those of"
                " the folder that you are in",
                configured,
                found,
            )
        return configured or found

    @asynccontextmanager
    async def asked_model(self, name: str | None) -> "AsyncIterator[Model | None]":
        """Open a model with the API and key of the settings; None without a name."""
        if name is None:
            yield None
            return
        from ctxmgr.models.open_model import open_model

        settings = self.loaded.settings
        self.loaded.require_trusted("api", "base_url", f"{settings.api}_api_key")
        key = settings.api_key(settings.api)
        opened = open_model(name, api=settings.api, key=key, base_url=settings.base_url)
        async with opened as model:
            yield model

    async def lifecycle(
        self, folder: Path | None = None, *, model: "Model | None" = None
    ) -> "Lifecycle":
        """The lifecycle of a folder of notes, by default that of the settings."""
        from ctxmgr.knowledge.notes.frontmatter import require_yaml

        require_yaml()
        root = self.knowledge_folder(folder)
        return await _lifecycle(await self.store_or_empty(), root, model=model)

    async def close_abandoned_transcripts(self, folder: Path | None, *, now: int) -> list[str]:
        """Close the transcripts of sessions that crashed; return their paths."""
        lifecycle = await self.lifecycle(folder)
        async with await _capture(lifecycle, self.masker) as capture:
            return [closed.path for closed in await capture.end_idle(now=now)]

    async def run_lifecycle(self) -> None:
        """Run what is due for the notes of the settings, until cancelled; nothing without notes."""
        if self.loaded.settings.knowledge is None:
            return
        log = logging.getLogger(__name__)
        try:
            self.loaded.require_trusted("knowledge")
        except CtxmgrError as error:
            log.warning("the lifecycle of notes does not run: %s", error)
            return
        while True:
            now = time.time_ns() // 1_000_000
            try:
                await self.close_abandoned_transcripts(None, now=now)
            except Exception:
                log.exception("abandoned transcripts could not be closed")
            try:
                await (await self.lifecycle()).run_due(now=now)
            except Exception:
                log.exception("the lifecycle of notes failed")
            await asyncio.sleep(LIFECYCLE_SECONDS)

    async def run_consolidation(self) -> None:
        """Consolidate the memories of the current folder's project once a day, until cancelled."""
        log = logging.getLogger(__name__)
        while True:
            try:
                await (await self.memory()).consolidate_if_due()
            except Exception:
                log.exception("memories could not be consolidated")
            await asyncio.sleep(LIFECYCLE_SECONDS)

    async def topics(self, folder: Path | None = None) -> "TopicSet":
        """Read the topics of a folder of notes, by default that of the settings."""
        from ctxmgr.knowledge.notes.notes_folder import NotesFolder
        from ctxmgr.knowledge.topics.topic_folder import load_topics

        layout, _ = await _knowledge_layout(self.knowledge_folder(folder))
        return await asyncio.to_thread(load_topics, NotesFolder(layout))

    async def fire_webhook(self, source: str, event: str, payload: object) -> "list[Firing]":
        """Fire the topics that wait for an event of a source; return what was fired."""
        from ctxmgr.knowledge.topics.triggers import TopicFirings

        found = await self.topics()
        return await TopicFirings(await self.store()).fire_webhook(
            found.topics,
            source=source,
            event=event,
            payload=payload,
            now=time.time_ns() // 1_000_000,
        )

    async def knowledge_layout(self, folder: Path | None = None) -> "Layout":
        """The layout of a repository of notes; ``Incorrect`` if it was not set up."""
        from ctxmgr.knowledge.notes.frontmatter import require_yaml
        from ctxmgr.knowledge.repository.setup import open_layout, raw_folder
        from ctxmgr.settings import data_dir

        require_yaml()
        root = self.knowledge_folder(folder)
        return await open_layout(root, raw=raw_folder(root, data=data_dir()))

    def new_knowledge_layout(self, folder: Path | None = None) -> "Layout":
        """The layout that a folder will have, by default that of the settings or this folder."""
        from ctxmgr.knowledge.notes.layout import Layout
        from ctxmgr.knowledge.repository.setup import raw_folder
        from ctxmgr.settings import data_dir

        if folder is None:
            self.loaded.require_trusted("knowledge")
        root = (folder or self.loaded.settings.knowledge or Path.cwd()).resolve()
        return Layout(root, raw_folder(root, data=data_dir()))

    def memory_git(self, layout: "Layout", *, model: "Model | None" = None) -> "MemoryGit":
        """Git for a repository of notes; a push is checked for secrets."""
        from ctxmgr.knowledge.repository.memory_git import MemoryGit

        return MemoryGit(layout, model=_masked(model), find_secrets=_secret_finder())

    def introspection(self, layout: "Layout") -> "Introspection":
        """The history of a repository of notes."""
        from ctxmgr.knowledge.repository.git import Git
        from ctxmgr.knowledge.repository.introspection import Introspection

        return Introspection(Git(layout.root), adopted=layout.adopted)

    async def library(
        self, folder: Path | None = None, *, main: bool = True, model: "Model | None" = None
    ) -> "Library":
        """The notes of a folder, by default that of the settings, without secrets."""
        library = await _open_library(self.knowledge_folder(folder), main=main, model=model)
        library.mask = self.masker.shown
        return library

    def concept_pack_path(self) -> Path:
        """Where the concept pack of the experience belongs; ``NotFound`` without a folder."""
        from ctxmgr.experience.xdb import CONCEPT_PACK

        root = self.experience_folder()
        if root is None:
            raise NotFound("no folder for experience is configured; name a file with --out")
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return root / CONCEPT_PACK

    def xdb(self, folder: Path | None, *, create: bool = False) -> "XDB":
        """The experience in a folder, by default that of the settings; ``NotFound`` if none is."""
        with requires_extra("experience", "duckdb", "numpy", "pyarrow"):
            from ctxmgr.experience.xdb import XDB

        root = folder or self.experience_folder()
        if root is None:
            raise NotFound(
                "there is no recorded experience; record some with `ctxmgr run --experience FOLDER`"
            )
        return XDB(root, AGENT, create=create)

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


def _kinds_with_memory() -> dict[str, Kind]:
    from ctxmgr.memory.repository import MEMORY_KINDS

    return {**KINDS, **MEMORY_KINDS}


def _principal(project: Path) -> "Principal":
    """This user in the project of a folder."""
    from ctxmgr.memory.project import project_id
    from ctxmgr.memory.records.principal import Principal

    return Principal(user_id=_user_id(), project_id=project_id(project))


def _user_id() -> str:
    """The name of the person who runs this; in a container the user may have none."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def _or(price: float | None, otherwise: float) -> float:
    return otherwise if price is None else price


def refuse_windows() -> None:
    """Raise ``Incorrect`` on Windows, before something fails there less clearly."""
    if sys.platform == "win32":
        raise Incorrect("ctxmgr does not run on Windows; use Linux, macOS, or Linux inside WSL")


def _mounts(mounts: tuple[Mapping[str, Any], ...], filesystem_id: str | None) -> Mounts:
    from ctxmgr.core.files.filesystem_ids import container_filesystem_id, host_filesystem_id

    if not mounts and filesystem_id is None:
        return Mounts.of_host(host_filesystem_id())
    from ctxmgr.core.files.mount_settings import read_mappings  # loads pydantic

    mappings = read_mappings(mounts, host_id=host_filesystem_id)
    # Without a name, two sandboxes cannot be known to be the same: each gets a new id.
    own_id = filesystem_id or container_filesystem_id(uuid.uuid4().hex)
    return Mounts.of_sandbox(mappings, own_id=own_id)


def _directory(mounts: Mounts) -> str:
    if not mounts.sandboxed:
        return str(Path.cwd())
    return mounts.mappings[0].agent_prefix if mounts.mappings else "/"


async def _own_files(
    store: Store,
    *,
    search: Path | None,
    fingerprints: Path | None,
    folders: tuple[Path | None, ...],
) -> "OwnFiles":
    from ctxmgr.core.files.own_files import OwnFiles, own_folders

    database = (await store.status()).details.get("file")
    files = [Path(database)] if isinstance(database, str) else []
    files += [file for file in (search, fingerprints) if file is not None]
    all_folders = [*own_folders(), *(folder.absolute() for folder in folders if folder is not None)]
    return await asyncio.to_thread(
        OwnFiles, [file.absolute() for file in files], folders=all_folders
    )


def _keep_out_of_reach(
    own: "OwnFiles", mounts: Mounts, *, sandbox: "Sandbox | None", audit: Path | None
) -> None:
    """Raise ``Incorrect`` if an agent behind these mounts could read or change our own files.

    Sandboxes hide ctxmgr's folders. A harness that runs its own tools has to do that itself, except
    for an audit log: that is refused wherever the agent could reach it.
    """
    if not mounts.sandboxed:
        return  # the agent's paths are the host's: it has every right of its user
    from ctxmgr.core.files.own_files import host_paths, steps_of
    from ctxmgr.settings import data_dir

    files = [file for file in own.files if sandbox is not None or not own.lie_in_folders(file)]
    audited = [] if audit is None else [audit.absolute()]
    for path in [*files, *(own.folders if sandbox is not None else audited)]:
        for step in steps_of(str(path)):
            folder, name = os.path.split(step)
            for place in host_paths(folder):
                seen = mounts.agent_path_of(f"{place.rstrip('/')}/{name}")
                if seen is not None:
                    raise Incorrect(
                        f"{str(path)!r:.200} belongs to ctxmgr, and the agent could read and change"
                        f" it at {seen!r:.200}: put it into a folder that is not mounted, such as"
                        f" {str(data_dir())!r:.200}"
                    )


async def _client(
    store: Store,
    closing: AsyncExitStack,
    *,
    mounts: Mounts,
    sandbox: "Sandbox | None",
    directory: str | None,
    window: Window,
    listeners: "tuple[Listener, ...]",
    contributors: "tuple[Contributor, ...]",
    flushers: "tuple[Flusher, ...]",
    summariser: "Model | None",
    fingerprints: Path | None,
    search: Path | None,
    audit: Path | None,
    audit_lenses: "Lenses | None",
    experience: "Path | XDB | None",
    knowledge: "Path | Library | None",
    memory: "Path | Principal | None",
    memory_model: "Model | None",
    masker: Masker,
    tracking: bool,
    policy: "SessionPolicy",
) -> "Client":
    from ctxmgr.core.client.client import Client
    from ctxmgr.core.client.runtime import Runtime, display_path
    from ctxmgr.core.files.fingerprints import Fingerprints
    from ctxmgr.core.files.host_files import HostFiles
    from ctxmgr.core.tracking.indexing import Indexing
    from ctxmgr.messages.forms import FORMS

    recorded = experience if isinstance(experience, Path | None) else experience.storage_path
    opened = None if isinstance(knowledge, Path | None) else knowledge
    transcripts = None if opened is None else opened.notes.layout.raw
    own = await _own_files(
        store, search=search, fingerprints=fingerprints, folders=(audit, recorded, transcripts)
    )
    files = HostFiles(mounts, own=own)
    closing.callback(files.close)
    _keep_out_of_reach(own, files.mounts, sandbox=sandbox, audit=audit)
    known = Fingerprints(fingerprints)
    known.load()
    indexing = Indexing(store, files, fingerprints=known, kept=masker.stored)
    library = None
    layer_tools: tuple[LayerTool, ...] = ()
    if knowledge is not None:
        from ctxmgr.knowledge.agent_notes import notes_tools

        library = await _noted(store, closing, knowledge, own=own, masker=masker)
        contributors += library.contributors
        flushers += library.flushers
        layer_tools = notes_tools(await _agent_notes(store, library, masker))
    feed = _listener_feed(store, listeners)
    observers: list[CommitObserver] = [] if feed is None else [feed.committed]
    if audit is not None:
        observers.append(await _audited(store, closing, root=audit, lenses=audit_lenses))
    elif audit_lenses is not None:
        raise Incorrect("audit_lenses score what an audit log records: name its folder as audit")
    if experience is not None:
        observers.append(await _experienced(store, closing, experience))
    if library is not None:
        observers.append(await _transcribed(store, closing, library, masker))
    if memory is not None:
        remembered, tools, observer = await _remembered(
            store,
            closing,
            memory,
            model=memory_model,
            masker=masker,
            budget_tokens=_memory_budget(policy),
        )
        contributors += (remembered,)
        layer_tools += tools
        observers.append(observer)
    trackers = None
    if tracking:
        from ctxmgr.core.client.tracker_loop import TrackerLoop

        trackers = TrackerLoop(
            store, indexing=indexing, mounts=files.mounts, observers=tuple(observers)
        )
    recall = None
    if search is not None:
        from ctxmgr.core.client.recall import Recall

        index = await _open_index(search)
        closing.push_async_callback(index.close)
        shown_path = partial(display_path, mounts=files.mounts)
        recall = Recall(store=store, index=index, masker=masker, display_path=shown_path)
    runtime = Runtime(
        store=store,
        files=files,
        indexing=indexing,
        sandbox=sandbox,
        window=window,
        directory=directory or _directory(mounts),
        forms={name: form.payload for name, form in FORMS.items()},
        contributors=contributors,
        contribute=knowledge is not None or memory is not None,
        flushers=flushers,
        summariser=summariser,
        masker=masker,
        recall=recall.search if recall is not None else None,
        layer_tools=layer_tools,
        observers=(*observers, *([trackers.follow] if trackers is not None else [])),
    )
    return Client(runtime, fingerprints=known, listeners=feed, tracking=trackers, policy=policy)


async def _open_index(path: Path) -> "Fts5Index | PieceIndex":
    """Open the search index of a store; without the extra ``vectors``, that of SQLite's FTS5."""
    if find_spec("numpy") is None or find_spec("snowballstemmer") is None:
        from ctxmgr.stores.fts5 import Fts5Index

        return await Fts5Index.open(path)
    from ctxmgr.search.piece_index import PieceIndex

    return await PieceIndex.open(path)


def _notes_index(own: Path, embedder: "ProviderEmbedder | None") -> Path:
    """Return the repository's own index if it has one; else nothing is written to the folder.

    Vectors of two embedders cannot be compared, so a provider's are in a file of their own.
    """
    from ctxmgr.settings import cache_dir

    if embedder is None and own.exists() and not own.is_symlink():
        return own
    folder = cache_dir() / "search"
    folder.mkdir(parents=True, exist_ok=True)
    named = str(own) if embedder is None else f"{own}\n{embedder.name}\n{embedder.dimension}"
    return folder / f"{hashlib.sha256(named.encode()).hexdigest()}.notes"


async def _search_notes(
    library: "Library",
    query: str,
    limit: int,
    category: str | None,
    *,
    embedder: "ProviderEmbedder | None" = None,
) -> "list[SearchResult]":
    """Search a folder of notes, after its index is brought up to date."""
    from ctxmgr.knowledge.indexed_notes import NoteDocuments
    from ctxmgr.search.hybrid import HybridWeights
    from ctxmgr.search.search_index import SearchIndex

    source, sides = NoteDocuments(library.notes), library.config.search
    source.require_category(category)
    index = await SearchIndex.open(
        await asyncio.to_thread(_notes_index, library.notes.layout.index, embedder),
        embedder=embedder or _static_embedder(),
        source=source,
        weights=HybridWeights(bm25=sides.bm25_weight, vector=sides.vector_weight),
    )
    try:
        await index.refresh()
        try:
            await index.embedded()
        except Unavailable as error:
            logging.getLogger(__name__).warning("some notes have no vectors: %s", error)
        return await index.search(query, limit, category)
    finally:
        await index.close()


async def _agent_notes(store: Store, library: "Library", masker: Masker) -> "AgentNotes":
    """What agents may do with the notes of a library."""
    from ctxmgr.knowledge.agent_notes import AgentNotes
    from ctxmgr.knowledge.lifecycle.review import ReviewQueue
    from ctxmgr.knowledge.repository.git import Git
    from ctxmgr.knowledge.repository.introspection import Introspection
    from ctxmgr.knowledge.repository.setup import is_set_up

    layout = library.notes.layout
    history = None
    if await is_set_up(layout.root):
        history = Introspection(Git(layout.root), adopted=layout.adopted)
    return AgentNotes(
        library.notes,
        review=ReviewQueue(store, library.notes),
        history=history,
        search=partial(_search_notes, library),
        mask=lambda text: masker.mask(text).text,  # notes are committed to git
        now=library.now,
    )


def _static_embedder() -> "StaticEmbedder | None":
    from ctxmgr.errors import ExtraMissing
    from ctxmgr.search.static_vectors import StaticEmbedder

    try:
        return StaticEmbedder.load()
    except ExtraMissing:
        return None


async def _noted(
    store: Store,
    closing: AsyncExitStack,
    knowledge: "Path | Library",
    *,
    own: "OwnFiles",
    masker: Masker,
) -> "Library":
    """Open a folder of notes, and store versions of them in the core."""
    from ctxmgr.core.files.filesystem_ids import host_filesystem_id
    from ctxmgr.core.files.fingerprints import Fingerprints
    from ctxmgr.core.files.host_files import HostFiles
    from ctxmgr.core.tracking.indexing import Indexing
    from ctxmgr.core.tracking.kept_files import KeptFiles

    library = knowledge
    if isinstance(library, Path):
        library = await _open_library(library)
    library.mask = masker.shown
    library.use_store(store)
    # The agent may see the notes elsewhere, or not at all: they are read as files of the host.
    files = HostFiles(Mounts.of_host(host_filesystem_id()), own=own)
    closing.callback(files.close)
    indexing = Indexing(store, files, fingerprints=Fingerprints(None), kept=masker.stored)
    kept = await closing.enter_async_context(KeptFiles(indexing))
    library.keep = kept.add
    await library.prepare()
    return library


def _memory_budget(policy: "SessionPolicy") -> int:
    """The tokens of memory in a prompt: less if the window is small."""
    from ctxmgr.core.economy.policy import Economy
    from ctxmgr.memory.tiers.profiles import BUDGET_TOKENS

    if not isinstance(policy, Economy):
        return BUDGET_TOKENS
    return max(1, min(BUDGET_TOKENS, policy.window_tokens // MEMORY_SHARE))


def _learner(store: Store, living: "LivingMemory", *, masker: Masker) -> "Learner":
    from ctxmgr.memory.learning.learner import Learner

    # Memories outlive their session and may be shared: they are masked whatever prompts show.
    return Learner(
        store,
        living,
        mask=lambda text: masker.mask(text).text,
        now=lambda: time.time_ns() // 1_000_000,
    )


async def _remembered(
    store: Store,
    closing: AsyncExitStack,
    memory: "Path | Principal",
    *,
    model: "Model | None",
    masker: Masker,
    budget_tokens: int,
) -> "tuple[Contributor, tuple[LayerTool, ...], CommitObserver]":
    """Learn from the store's sessions, and give what was learnt to their prompts and agents."""
    from ctxmgr.memory.agent_tools import memory_tools
    from ctxmgr.memory.learning.listener import MemoryListener
    from ctxmgr.memory.learning.prompt_memory import PromptMemory
    from ctxmgr.memory.living import LivingMemory

    owner, root = memory, None
    if isinstance(owner, Path):
        root = str(await asyncio.to_thread(owner.resolve))
        owner = await asyncio.to_thread(_principal, owner)

    living = LivingMemory(store, owner, model=model)
    await living.prepare()
    learner = _learner(store, living, masker=masker)
    listener = MemoryListener(learner, root=root)
    await listener.begin(store)
    tools = memory_tools(living, mask=lambda text: masker.mask(text).text)
    contributor = PromptMemory(
        store,
        living,
        learner,
        files=listener.files,
        budget_tokens=budget_tokens,
        shown=masker.shown,
    )
    observer = await _recorded(store, closing, listener, quiet_s=QUIET_SECONDS)
    return contributor, tools, observer


async def _transcribed(
    store: Store, closing: AsyncExitStack, library: "Library", masker: Masker
) -> "CommitObserver":
    """Write transcripts of the store's sessions, commit them, and extract notes from them."""
    from ctxmgr.core.events.origins import StoreEvents
    from ctxmgr.knowledge.transcripts.listener import TranscriptListener

    layout = library.notes.layout
    lifecycle = await _lifecycle(store, layout.root, library=library)
    capture = await closing.enter_async_context(await _capture(lifecycle, masker))
    return await _recorded(store, closing, TranscriptListener(capture, StoreEvents(store)))


async def _capture(lifecycle: "Lifecycle", masker: Masker) -> "ConversationCapture":
    from ctxmgr.knowledge.repository.conversations import commit_conversation
    from ctxmgr.knowledge.transcripts.capture import ConversationCapture

    async def on_closed(closed: "ClosedTranscript") -> None:
        await commit_conversation(lifecycle.layout, closed.path, slug=closed.slug)
        await lifecycle.session_ended(closed.path)

    # Transcripts are committed to git: they are masked whatever prompts show.
    return await ConversationCapture.open(
        lifecycle.layout.raw, mask=lambda text: masker.mask(text).text, on_closed=on_closed
    )


async def _lifecycle(
    store: Store, root: Path, *, library: "Library | None" = None, model: "Model | None" = None
) -> "Lifecycle":
    from ctxmgr.knowledge.config import KnowledgeConfig
    from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle
    from ctxmgr.knowledge.notes.notes_folder import NotesFolder
    from ctxmgr.knowledge.repository.memory_git import MemoryGit

    layout, is_set_up = await _knowledge_layout(root)
    config, messages = KnowledgeConfig(), model
    if library is not None:
        layout, config, model = library.notes.layout, library.config, library.model
        messages = library.named_model(config.git.commit_message_model)
    git = None
    if is_set_up:
        git = MemoryGit(layout, model=_masked(messages), find_secrets=_secret_finder())
    return Lifecycle(
        NotesFolder(layout),
        store=store,
        config=config.lifecycle,
        git=git,
        git_config=config.git,
        model=_masked(model),
    )


def _masked(model: "Model | None") -> "Model | None":
    """Return a model that reads notes and their differences without secrets."""
    from ctxmgr.core.model import MaskedModel

    masker = Masker()
    return None if model is None else MaskedModel(model, lambda text: masker.mask(text).text)


def _secret_finder() -> "FindSecrets":
    masker = Masker()
    return lambda text: [kind for _, _, kind in masker.positions(text)]


async def _open_library(
    root: Path, *, main: bool = True, model: "Model | None" = None
) -> "Library":
    """Open the notes of a folder, with the layout that it was set up with."""
    from ctxmgr.knowledge.library import Library

    layout, _ = await _knowledge_layout(root)
    return await asyncio.to_thread(
        lambda: Library.open(root, raw=layout.raw, adopted=layout.adopted, main=main, model=model)
    )


async def _knowledge_layout(root: Path) -> "tuple[Layout, bool]":
    """Return the layout of a folder of notes, and whether it was set up as a repository."""
    from ctxmgr.knowledge.notes.frontmatter import require_yaml
    from ctxmgr.knowledge.notes.layout import Layout
    from ctxmgr.knowledge.notes.notes_folder import has_notes_elsewhere
    from ctxmgr.knowledge.repository.setup import is_set_up, open_layout, raw_folder
    from ctxmgr.settings import data_dir

    require_yaml()
    raw = raw_folder(root, data=data_dir())
    if await is_set_up(root):
        return await open_layout(root, raw=raw), True
    # A folder or repository of the person's own: its files are notes, and nothing is committed.
    adopted = await asyncio.to_thread(has_notes_elsewhere, root)
    return Layout(await asyncio.to_thread(root.absolute), raw, adopted=adopted), False


async def _audited(
    store: Store, closing: AsyncExitStack, *, root: Path, lenses: "Lenses | None"
) -> "CommitObserver":
    """Record the store's events in an audit log; return what a client calls after a commit.

    The client gets a function that holds nothing but an event: from what an agent's tools use,
    no attribute leads to the log.
    """
    from ctxmgr.audit.listener import AuditListener
    from ctxmgr.audit.log import AuditLog
    from ctxmgr.core.events.origins import StoreEvents

    log = await closing.enter_async_context(await AuditLog.open(root, be_id=AGENT))
    scores = None if lenses is None else lambda text: lenses.read_text(text).all
    listener = AuditListener(log.writer, StoreEvents(store), scores=scores)
    return await _recorded(store, closing, listener)


async def _experienced(
    store: Store, closing: AsyncExitStack, experience: "Path | XDB"
) -> "CommitObserver":
    """Record the store's events as experience; return what a client calls after a commit."""
    from ctxmgr.core.events.origins import StoreEvents

    if isinstance(experience, Path):
        from ctxmgr.experience.xdb import XDB

        experience = await closing.enter_async_context(XDB(experience, AGENT))
    await experience.use_documents(store)
    await experience.load_concepts()
    return await _recorded(store, closing, experience.listener(StoreEvents(store)))


async def _recorded(
    store: Store, closing: AsyncExitStack, listener: "Listener", *, quiet_s: float = 0.0
) -> "CommitObserver":
    """Deliver events to a listener until the end, and then those that are left.

    With ``quiet_s``, it waits until nothing was committed for so long: learning takes processor
    time, of which there is plenty while a model answers.
    """
    from ctxmgr.core.events.listeners import ListenerFeed

    feed = ListenerFeed(store, listeners=(listener,))
    await closing.enter_async_context(feed)
    committed = asyncio.Event()

    async def wake() -> None:
        while True:
            await committed.wait()
            await _settled(committed, quiet_s)
            committed.clear()
            await feed.committed()

    async def drain() -> None:
        waking.cancel()
        await asyncio.gather(waking, return_exceptions=True)
        await feed.committed()
        try:
            await asyncio.wait_for(feed.heard(), DRAIN_SECONDS)
        except TimeoutError:
            logging.getLogger(__name__).warning(
                "the %s log is behind by some events; it continues when a client is opened",
                listener.name,
            )

    async def observer(_: object) -> None:
        committed.set()

    waking = asyncio.create_task(wake())
    closing.push_async_callback(drain)
    return observer


async def _settled(committed: asyncio.Event, quiet_s: float) -> None:
    """Wait until an event was not set for some time, at most ``BEHIND_SECONDS``."""
    end = time.monotonic() + BEHIND_SECONDS
    while quiet_s and time.monotonic() < end:
        committed.clear()
        try:
            await asyncio.wait_for(committed.wait(), quiet_s)
        except TimeoutError:
            return


def _listener_feed(store: Store, listeners: "tuple[Listener, ...]") -> "ListenerFeed | None":
    if not listeners:
        return None
    from ctxmgr.core.events.listeners import ListenerFeed

    return ListenerFeed(store, listeners=listeners)


async def _open_loaded(
    loaded: "LoadedSettings", kinds: Mapping[str, Kind], *, create: bool = True
) -> Store:
    from ctxmgr.settings import DATABASE_FILE, data_dir

    loaded.require_trusted("store", "token", "ca_file")
    if create and loaded.origins["store"] == "default":
        # Only our own folder: a mistyped path elsewhere must not create folders.
        data_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = loaded.settings
    if not create and loaded.origins["store"] == "default":
        file = data_dir() / DATABASE_FILE
        if not file.exists():
            raise NotFound(f"no store at {file} yet; `ctxmgr run` creates it")
    token = settings.token.get_secret_value() if settings.token else None
    return await _open(
        settings.store,
        kinds=kinds,
        token=token,
        ca_file=settings.ca_file,
        timeout_s=settings.store_timeout,
        create=create,
    )


def _with_own_kinds(kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    """Add ctxmgr's own kinds, so that nobody writes its objects without their rules."""
    own = {
        name: replace(kind, indexed={**kinds[name].indexed, **kind.indexed})
        for name, kind in KINDS.items()
        if name in kinds
    }
    return {**KINDS, **kinds, **own}


async def _open(
    url: str | Path,
    *,
    kinds: Mapping[str, Kind],
    token: str | None,
    ca_file: Path | None,
    timeout_s: float | None,
    create: bool = True,
) -> Store:
    kinds = _with_own_kinds(kinds)
    relative = isinstance(url, Path) and not url.is_absolute()
    url = store_url(f"./{url}" if relative else str(url))
    if _scheme(url) == "sqlite":
        from ctxmgr.stores.sqlite.store import SqliteStore

        return await SqliteStore.open(url, kinds=kinds, create=create)
    with requires_extra("xtdb", "edn_format"):
        from ctxmgr.stores.xtdb.store import XtdbStore

    return await XtdbStore.open(url, kinds=kinds, token=token, ca_file=ca_file, timeout_s=timeout_s)


def _scheme(url: str) -> str:
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        # The cause may quote a password.
        raise Incorrect(f"invalid URL {redact_url(url)!r:.200}; {_known()}") from None
    if "://" not in url or not scheme:
        raise Incorrect(f"{redact_url(url)!r:.200} is neither a path nor a store URL; {_known()}")
    if scheme not in URL_EXAMPLES:
        raise Incorrect(f"unknown kind of store {scheme!r:.80}; {_known()}")
    return scheme


def _known() -> str:
    return "use a path, or one of: " + ", ".join(
        url for urls in URL_EXAMPLES.values() for url in urls
    )
