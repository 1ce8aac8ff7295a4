"""What layers add to a client: notes, memory, experience, searches. Opens them.

Drivers and layers are imported by the call that needs them.
"""

import asyncio
import hashlib
import logging
import os
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.private_files import make_private_folder
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.core.store.contract import Kind, Store
from ctxmgr.errors import Incorrect, Unavailable

if TYPE_CHECKING:
    from ctxmgr.core.client.runtime import CommitObserver
    from ctxmgr.core.context.contributors import Contributor
    from ctxmgr.core.context.layer_tools import LayerTool
    from ctxmgr.core.events.events import Listener
    from ctxmgr.core.events.listeners import ListenerFeed
    from ctxmgr.core.files.own_files import OwnFiles
    from ctxmgr.core.history.session_policy import SessionPolicy
    from ctxmgr.core.model import Model
    from ctxmgr.experience.xdb import XDB
    from ctxmgr.knowledge.agent_notes import AgentNotes
    from ctxmgr.knowledge.library import Library
    from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle
    from ctxmgr.knowledge.notes.layout import Layout
    from ctxmgr.knowledge.repository.memory_git import FindSecrets
    from ctxmgr.knowledge.transcripts.capture import ConversationCapture
    from ctxmgr.knowledge.transcripts.open_transcripts import ClosedTranscript
    from ctxmgr.memory.learning.learner import Learner
    from ctxmgr.memory.living import LivingMemory
    from ctxmgr.memory.records.principal import Principal
    from ctxmgr.search.documents import SearchResult
    from ctxmgr.search.piece_index import PieceIndex
    from ctxmgr.search.provider_vectors import ProviderEmbedder
    from ctxmgr.search.static_vectors import StaticEmbedder
    from ctxmgr.stores.fts5 import Fts5Index

AGENT: Final = "agent"
"""The name of an agent in audit records. Its session tells it from others."""

DRAIN_SECONDS: Final = 10.0
"""How long closing a client waits for its last events to be recorded; the rest comes later."""

QUIET_SECONDS: Final = 0.2
"""Without a commit, before a session is learnt from: usually its model is answering then."""

BEHIND_SECONDS: Final = 2.0
"""How far learning may be behind a client that commits all the time."""


@dataclass(frozen=True, slots=True)
class AttachedListener:
    """A layer's listener, as far as a client may know it: no attribute leads to the layer."""

    committed: "CommitObserver"
    """What the client calls after a commit."""

    idle: asyncio.Event
    """Set while every event so far was handled."""


HISTORY_SECONDS: Final = 1.0
"""How long a client waits for the commits of its project; later prompts get them all the same."""

MEMORY_SHARE: Final = 16
"""Memory gets at most one part in so many of a policy's window: 8,000 tokens of 128,000."""


def kinds_with_memory() -> dict[str, Kind]:
    from ctxmgr.memory.repository import MEMORY_KINDS

    return {**KINDS, **MEMORY_KINDS}


def principal_in(project: Path) -> "Principal":
    """This user in the project of a folder; a mistyped one would be another project, unnoticed."""
    from ctxmgr.memory.project import project_id
    from ctxmgr.memory.records.principal import Principal

    if not project.is_dir():
        raise Incorrect(f"there is no folder {str(project)!r:.200}; pass that of a project")
    return Principal(user_id=_user_id(), project_id=project_id(project))


def _user_id() -> str:
    """The name of the person who runs this; in a container the user may have none."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


async def open_piece_index(path: Path) -> "Fts5Index | PieceIndex":
    """Open the search index of a store; without the extra ``vectors``, that of SQLite's FTS5."""
    if find_spec("numpy") is None or find_spec("snowballstemmer") is None:
        from ctxmgr.stores.fts5 import Fts5Index

        return await Fts5Index.open(path)
    from ctxmgr.search.piece_index import PieceIndex

    return await PieceIndex.open(path)


def notes_index(own: Path, embedder: "ProviderEmbedder | None") -> Path:
    """Return the repository's own index if it has one; else nothing is written to the folder.

    Vectors of two embedders cannot be compared, so a provider's are in a file of their own.
    """
    from ctxmgr.settings import cache_dir

    if embedder is None and own.exists() and not own.is_symlink():
        return own
    folder = cache_dir() / "search"
    make_private_folder(folder)
    named = str(own) if embedder is None else f"{own}\n{embedder.name}\n{embedder.dimension}"
    return folder / f"{hashlib.sha256(named.encode()).hexdigest()}.notes"


async def search_folder(
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
        await asyncio.to_thread(notes_index, library.notes.layout.index, embedder),
        embedder=embedder or static_embedder(),
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


async def notes_for_agents(store: Store, library: "Library", masker: Masker) -> "AgentNotes":
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
        search=partial(search_folder, library),
        mask=lambda text: masker.mask(text).text,  # notes are committed to git
        now=library.now,
    )


def static_embedder() -> "StaticEmbedder | None":
    from ctxmgr.errors import ExtraMissing
    from ctxmgr.search.static_vectors import StaticEmbedder

    try:
        return StaticEmbedder.load()
    except ExtraMissing:
        return None


async def attach_notes(
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
        library = await open_library(library)
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


def memory_budget(policy: "SessionPolicy") -> int:
    """The tokens of memory in a prompt: less if the window is small."""
    from ctxmgr.core.economy.policy import Economy
    from ctxmgr.memory.tiers.profiles import BUDGET_TOKENS

    if not isinstance(policy, Economy):
        return BUDGET_TOKENS
    return max(1, min(BUDGET_TOKENS, policy.window_tokens // MEMORY_SHARE))


def learner_of(store: Store, living: "LivingMemory", *, masker: Masker) -> "Learner":
    from ctxmgr.memory.learning.learner import Learner

    # Memories outlive their session and may be shared: they are masked whatever prompts show.
    return Learner(
        store,
        living,
        mask=lambda text: masker.mask(text).text,
        now=lambda: time.time_ns() // 1_000_000,
    )


async def attach_memory(
    store: Store,
    closing: AsyncExitStack,
    memory: "Path | Principal",
    *,
    model: "Model | None",
    masker: Masker,
    budget_tokens: int,
) -> "tuple[Contributor, tuple[LayerTool, ...], AttachedListener]":
    """Learn from the store's sessions, and give what was learnt to their prompts and agents."""
    from ctxmgr.memory.agent_tools import memory_tools
    from ctxmgr.memory.learning.foresight import FileForesight
    from ctxmgr.memory.learning.listener import MemoryListener
    from ctxmgr.memory.learning.prompt_memory import PromptMemory
    from ctxmgr.memory.living import LivingMemory
    from ctxmgr.memory.prediction.file_predictor import FilePredictor
    from ctxmgr.memory.project import feature_branch

    owner, folder = memory, None
    if isinstance(owner, Path):
        folder = await asyncio.to_thread(owner.resolve)
        owner = await asyncio.to_thread(principal_in, owner)

    living = LivingMemory(store, owner, model=model)
    await living.prepare()
    learner = learner_of(store, living, masker=masker)
    root = None if folder is None else str(folder)
    foresight = FileForesight(store, FilePredictor(living.related), root=root)
    foresight.recall(living.resident.shortlist.memories.values())
    if folder is not None:
        reading = asyncio.create_task(take_history(living, folder))
        closing.callback(reading.cancel)
        await asyncio.wait({reading}, timeout=HISTORY_SECONDS)
    listener = MemoryListener(learner, root=root, foresight=foresight)
    await listener.begin(store)
    tools = memory_tools(living, mask=lambda text: masker.mask(text).text)
    contributor = PromptMemory(
        store,
        living,
        learner,
        files=listener.files,
        budget_tokens=budget_tokens,
        shown=masker.shown,
        next_files=foresight.next_files,
        branch=lambda: None if folder is None else feature_branch(folder),
    )
    attached = await attach_listener(store, closing, listener, quiet_s=QUIET_SECONDS)
    return contributor, tools, attached


async def take_history(living: "LivingMemory", folder: Path) -> None:
    """Let memory know which files the commits of a project changed together."""
    from ctxmgr.knowledge.repository.commit_files import commit_files

    living.related.take_commits(await commit_files(folder))


async def attach_transcripts(
    store: Store, closing: AsyncExitStack, library: "Library", masker: Masker
) -> AttachedListener:
    """Write transcripts of the store's sessions, commit them, and extract notes from them."""
    from ctxmgr.core.events.origins import StoreEvents
    from ctxmgr.knowledge.transcripts.listener import TranscriptListener

    layout = library.notes.layout
    lifecycle = await open_lifecycle(store, layout.root, library=library)
    capture = await closing.enter_async_context(await open_capture(lifecycle, masker))
    return await attach_listener(store, closing, TranscriptListener(capture, StoreEvents(store)))


async def open_capture(lifecycle: "Lifecycle", masker: Masker) -> "ConversationCapture":
    from ctxmgr.knowledge.repository.conversations import commit_conversation
    from ctxmgr.knowledge.transcripts.capture import ConversationCapture

    async def on_closed(closed: "ClosedTranscript") -> None:
        await commit_conversation(lifecycle.layout, closed.path, slug=closed.slug)
        await lifecycle.session_ended(closed.path)

    # Transcripts are committed to git: they are masked whatever prompts show.
    return await ConversationCapture.open(
        lifecycle.layout.raw, mask=lambda text: masker.mask(text).text, on_closed=on_closed
    )


async def open_lifecycle(
    store: Store, root: Path, *, library: "Library | None" = None, model: "Model | None" = None
) -> "Lifecycle":
    from ctxmgr.knowledge.config import KnowledgeConfig
    from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle
    from ctxmgr.knowledge.notes.notes_folder import NotesFolder
    from ctxmgr.knowledge.repository.memory_git import MemoryGit

    layout, is_set_up = await layout_of(root)
    config, messages = KnowledgeConfig(), model
    if library is not None:
        layout, config, model = library.notes.layout, library.config, library.model
        messages = library.named_model(config.git.commit_message_model)
    git = None
    if is_set_up:
        git = MemoryGit(layout, model=masked_model(messages), find_secrets=secret_finder())
    return Lifecycle(
        NotesFolder(layout),
        store=store,
        config=config.lifecycle,
        git=git,
        git_config=config.git,
        model=masked_model(model),
    )


def masked_model(model: "Model | None") -> "Model | None":
    """Return a model that reads notes and their differences without secrets."""
    from ctxmgr.core.model import MaskedModel

    masker = Masker()
    return None if model is None else MaskedModel(model, lambda text: masker.mask(text).text)


def secret_finder() -> "FindSecrets":
    masker = Masker()
    return lambda text: [kind for _, _, kind in masker.positions(text)]


async def open_library(root: Path, *, main: bool = True, model: "Model | None" = None) -> "Library":
    """Open the notes of a folder, with the layout that it was set up with."""
    from ctxmgr.knowledge.library import Library

    layout, _ = await layout_of(root)
    return await asyncio.to_thread(
        lambda: Library.open(root, raw=layout.raw, adopted=layout.adopted, main=main, model=model)
    )


async def layout_of(root: Path) -> "tuple[Layout, bool]":
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


async def attach_experience(
    store: Store, closing: AsyncExitStack, experience: "Path | XDB"
) -> AttachedListener:
    """Record the store's events as experience."""
    from ctxmgr.core.events.origins import StoreEvents

    if isinstance(experience, Path):
        from ctxmgr.experience.xdb import XDB

        experience = await closing.enter_async_context(XDB(experience, AGENT))
    await experience.use_documents(store)
    await experience.load_concepts()
    return await attach_listener(store, closing, experience.listener(StoreEvents(store)))


async def attach_listener(
    store: Store, closing: AsyncExitStack, listener: "Listener", *, quiet_s: float = 0.0
) -> AttachedListener:
    """Deliver events to a listener until the end, and then those that are left.

    With ``quiet_s``, it waits until nothing was committed for so long: learning takes processor
    time, of which there is plenty while a model answers.
    """
    from ctxmgr.core.events.listeners import ListenerFeed

    feed = ListenerFeed(store, listeners=(listener,))
    await closing.enter_async_context(feed)
    committed, idle = asyncio.Event(), asyncio.Event()

    async def deliver() -> None:
        while True:
            await feed.heard()
            if not committed.is_set():
                idle.set()
            await committed.wait()
            await _settled(committed, quiet_s)
            committed.clear()
            await feed.committed()

    async def drain() -> None:
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)
        await feed.committed()
        try:
            await asyncio.wait_for(feed.heard(), DRAIN_SECONDS)
        except TimeoutError:
            logging.getLogger(__name__).warning(
                "the %s log is behind by some events; it continues when a client is opened",
                listener.name,
            )

    async def observer(_: object) -> None:
        idle.clear()
        committed.set()

    delivering = asyncio.create_task(deliver())
    closing.push_async_callback(drain)
    return AttachedListener(observer, idle)


async def _settled(committed: asyncio.Event, quiet_s: float) -> None:
    """Wait until an event was not set for some time, at most ``BEHIND_SECONDS``."""
    end = time.monotonic() + BEHIND_SECONDS
    while quiet_s and time.monotonic() < end:
        committed.clear()
        try:
            await asyncio.wait_for(committed.wait(), quiet_s)
        except TimeoutError:
            return


def listener_feed(store: Store, listeners: "tuple[Listener, ...]") -> "ListenerFeed | None":
    if not listeners:
        return None
    from ctxmgr.core.events.listeners import ListenerFeed

    return ListenerFeed(store, listeners=listeners)
