"""Composition root: builds stores and clients from settings and arguments. Opens them.

    agent.db or any path    sqlite:///relative.db   sqlite:////absolute.db   sqlite://:memory:
    xtdb+http://host:port   xtdb+https://host

Importing this module is cheap. Drivers and settings are imported by the call that needs them, so
that only the store in use is loaded, and ``--help`` is fast.
"""

import asyncio
import logging
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ctxmgr.client_layers import (
    AGENT,
    kinds_with_memory,
    layout_of,
    learner_of,
    masked_model,
    notes_for_agents,
    open_capture,
    open_library,
    open_lifecycle,
    open_piece_index,
    principal_in,
    search_folder,
    secret_finder,
    take_history,
)
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.private_files import make_private_folder
from ctxmgr.core.secrets.masking import Masker, Secrets
from ctxmgr.core.sessions.collapse import Window
from ctxmgr.core.store.contract import Kind, Store
from ctxmgr.errors import CtxmgrError, Denied, Incorrect, NotFound, requires_extra
from ctxmgr.store_opening import open_at, open_loaded

if TYPE_CHECKING:
    from ctxmgr.audit.log import AuditLog, AuditStatus, Reviewers
    from ctxmgr.core.client.client import Client
    from ctxmgr.core.context.contributors import Contributor
    from ctxmgr.core.context.flushes import Flusher
    from ctxmgr.core.economy.policy import Economy
    from ctxmgr.core.events.events import Listener
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
    from ctxmgr.knowledge.repository.memory_git import MemoryGit
    from ctxmgr.knowledge.topics.topic import TopicSet
    from ctxmgr.knowledge.topics.triggers import Firing
    from ctxmgr.memory.learning.learner import Learner
    from ctxmgr.memory.living import LivingMemory
    from ctxmgr.memory.records.principal import Principal
    from ctxmgr.search.documents import SearchResult
    from ctxmgr.search.piece_index import PieceIndex
    from ctxmgr.search.provider_vectors import ProviderEmbedder
    from ctxmgr.settings import LoadedSettings
    from ctxmgr.stores.fts5 import Fts5Index


LIFECYCLE_SECONDS: Final = 60.0
"""How often a server looks for what is due: schedules have minutes."""


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
        return await open_loaded(loaded, kinds)
    return await open_at(url, kinds=kinds, token=token, ca_file=ca_file, timeout_s=timeout_s)


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
    from ctxmgr.client_opening import ClientOptions, open_client, read_mounts, read_path
    from ctxmgr.core.history.session_policy import read_policy

    chosen = read_policy(policy)
    async with AsyncExitStack() as closing:
        if store is None:
            kinds = KINDS if memory is None else kinds_with_memory()
            opening = open_store(url, kinds=kinds, timeout_s=timeout_s)
            store = await closing.enter_async_context(await opening)
        options = ClientOptions(
            mounts=sandbox.mounts if sandbox else read_mounts(tuple(mounts), filesystem_id),
            sandbox=sandbox,
            directory=directory,
            window=window or Window(),
            listeners=tuple(listeners),
            contributors=tuple(contributors),
            flushers=tuple(flushers),
            summariser=summariser,
            fingerprints=read_path(fingerprints),
            search=read_path(search),
            audit=read_path(audit),
            audit_lenses=audit_lenses,
            experience=read_path(experience),
            knowledge=read_path(knowledge),
            memory=read_path(memory),
            memory_model=memory_model,
            masker=Masker(secrets),
            tracking=tracking,
            policy=chosen,
        )
        client = await open_client(store, options, closing)
        yield await closing.enter_async_context(client)


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
    _with_history: "set[Principal]" = field(default_factory=set, init=False)

    async def store(self) -> Store:
        """The store of the settings."""
        if self._store is None:
            kinds = kinds_with_memory()
            self._store = await open_loaded(self.loaded, kinds, create=self.create)
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

        owner = await asyncio.to_thread(principal_in, project or Path.cwd())
        if owner not in self._memories:
            self._memories[owner] = LivingMemory(await self.store(), owner)
        return self._memories[owner]

    async def memory_with_history(self, project: Path | None = None) -> "LivingMemory":
        """The same; it knows which files the commits of the project changed together."""
        living = await self.memory(project)
        if living.principal not in self._with_history:
            self._with_history.add(living.principal)
            await take_history(living, project or Path.cwd())
        return living

    async def learner(self, project: Path | None = None) -> "Learner":
        """Learns from sessions of this user in a project; by default, that of this folder."""
        return learner_of(await self.store(), await self.memory(project), masker=self.masker)

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
                self._indexes.append(await open_piece_index(path))
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
        library = await open_library(self.knowledge_folder(folder))
        self.say("comparing the index with the notes")
        embedder = self._provider_embedder(library.config.search) if embeddings else None
        return await search_folder(library, query, limit, category, embedder=embedder)

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
        library = await open_library(self.knowledge_folder(folder))
        return await notes_for_agents(await self.store(), library, self.masker)

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
        return await open_lifecycle(await self.store_or_empty(), root, model=model)

    async def close_abandoned_transcripts(self, folder: Path | None, *, now: int) -> list[str]:
        """Close the transcripts of sessions that crashed; return their paths."""
        lifecycle = await self.lifecycle(folder)
        async with await open_capture(lifecycle, self.masker) as capture:
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

        layout, _ = await layout_of(self.knowledge_folder(folder))
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

        return MemoryGit(layout, model=masked_model(model), find_secrets=secret_finder())

    def introspection(self, layout: "Layout") -> "Introspection":
        """The history of a repository of notes."""
        from ctxmgr.knowledge.repository.git import Git
        from ctxmgr.knowledge.repository.introspection import Introspection

        return Introspection(Git(layout.root), adopted=layout.adopted)

    async def library(
        self, folder: Path | None = None, *, main: bool = True, model: "Model | None" = None
    ) -> "Library":
        """The notes of a folder, by default that of the settings, without secrets."""
        library = await open_library(self.knowledge_folder(folder), main=main, model=model)
        library.mask = self.masker.shown
        return library

    def concept_pack_path(self) -> Path:
        """Where the concept pack of the experience belongs; ``NotFound`` without a folder."""
        from ctxmgr.experience.xdb import CONCEPT_PACK

        root = self.experience_folder()
        if root is None:
            raise NotFound("no folder for experience is configured; name a file with --out")
        make_private_folder(root)
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


def _or(price: float | None, otherwise: float) -> float:
    return otherwise if price is None else price


def refuse_windows() -> None:
    """Raise ``Incorrect`` on Windows, before something fails there less clearly."""
    if sys.platform == "win32":
        raise Incorrect("ctxmgr does not run on Windows; use Linux, macOS, or Linux inside WSL")
