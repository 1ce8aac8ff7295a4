"""Put a client together from what ``connect`` was given. Opens files and layers.

    mounts, sandbox ─► files the agent may see ─► indexing ─┐
    notes, memory, audit, experience ─► layers ─────────────┼─► runtime ─► client
    trackers, recall ───────────────────────────────────────┘

The client owns none of the layers: they are closed after it, in the reverse order of opening.
"""

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ctxmgr.client_layers import (
    AGENT,
    AttachedListener,
    attach_experience,
    attach_listener,
    attach_memory,
    attach_notes,
    attach_transcripts,
    listener_feed,
    memory_budget,
    notes_for_agents,
    open_piece_index,
)
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.runtime import CommitObserver, RecallSearch, Runtime, display_path
from ctxmgr.core.files.filesystem_ids import container_filesystem_id, host_filesystem_id
from ctxmgr.core.files.fingerprints import Fingerprints
from ctxmgr.core.files.host_files import HostFiles
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.files.own_files import OwnFiles, host_paths, own_folders, steps_of
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.core.sessions.collapse import Window
from ctxmgr.core.store.contract import Store
from ctxmgr.core.tracking.indexing import Indexing
from ctxmgr.errors import Incorrect
from ctxmgr.messages.forms import FORMS

if TYPE_CHECKING:
    from ctxmgr.core.context.contributors import Contributor
    from ctxmgr.core.context.flushes import Flusher
    from ctxmgr.core.context.layer_tools import LayerTool
    from ctxmgr.core.events.events import Listener
    from ctxmgr.core.history.session_policy import SessionPolicy
    from ctxmgr.core.model import Model
    from ctxmgr.core.sandbox import Sandbox
    from ctxmgr.experience.lenses.lens import Lenses
    from ctxmgr.experience.xdb import XDB
    from ctxmgr.knowledge.library import Library
    from ctxmgr.memory.records.principal import Principal

    Opened = TypeVar("Opened", XDB, Library, Principal, Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The arguments of ``connect``, read; it says what each means."""

    mounts: Mounts
    sandbox: "Sandbox | None"
    directory: str | None
    window: Window
    listeners: "tuple[Listener, ...]"
    contributors: "tuple[Contributor, ...]"
    flushers: "tuple[Flusher, ...]"
    summariser: "Model | None"
    fingerprints: Path | None
    search: Path | None
    audit: Path | None
    audit_lenses: "Lenses | None"
    experience: "Path | XDB | None"
    knowledge: "Path | Library | None"
    memory: "Path | Principal | None"
    memory_model: "Model | None"
    masker: Masker
    tracking: bool
    policy: "SessionPolicy"

    @property
    def layer_folders(self) -> tuple[Path | None, ...]:
        """The folders that layers keep their files in, none of which an agent may reach."""
        recorded = self.experience
        if not isinstance(recorded, Path | None):
            recorded = recorded.storage_path
        notes = self.knowledge
        return (
            self.audit,
            recorded,
            None if isinstance(notes, Path | None) else notes.notes.layout.raw,
        )


@dataclass(slots=True)
class _Layers:
    """What the layers in use add to a client."""

    attached: list[AttachedListener] = field(default_factory=list)
    contributors: "tuple[Contributor, ...]" = ()
    flushers: "tuple[Flusher, ...]" = ()
    tools: "tuple[LayerTool, ...]" = ()


async def open_client(store: Store, options: ClientOptions, closing: AsyncExitStack) -> Client:
    """Put a client together, not yet entered; what it needs is closed by ``closing``."""
    own = await _own_files(store, options)
    files = HostFiles(options.mounts, own=own)
    closing.callback(files.close)
    _keep_out_of_reach(own, files.mounts, sandbox=options.sandbox, audit=options.audit)
    fingerprints = Fingerprints(options.fingerprints)
    fingerprints.load()
    indexing = Indexing(store, files, fingerprints=fingerprints, kept=options.masker.stored)
    feed = listener_feed(store, options.listeners)
    layers = await _open_layers(store, options, closing, own=own)
    observers: tuple[CommitObserver, ...] = (
        *(() if feed is None else (feed.committed,)),
        *(listener.committed for listener in layers.attached),
    )
    trackers = None
    if options.tracking:
        from ctxmgr.core.client.tracker_loop import TrackerLoop

        trackers = TrackerLoop(store, indexing=indexing, mounts=files.mounts, observers=observers)
        observers += (trackers.follow,)
    runtime = Runtime(
        store=store,
        files=files,
        indexing=indexing,
        sandbox=options.sandbox,
        window=options.window,
        directory=options.directory or _directory(options.mounts),
        forms={name: form.payload for name, form in FORMS.items()},
        contributors=options.contributors + layers.contributors,
        contribute=options.knowledge is not None or options.memory is not None,
        flushers=options.flushers + layers.flushers,
        summariser=options.summariser,
        masker=options.masker,
        recall=await _open_recall(store, options, closing, mounts=files.mounts),
        layer_tools=layers.tools,
        observers=observers,
    )
    return Client(
        runtime,
        fingerprints=fingerprints,
        listeners=feed,
        attached=tuple(listener.idle for listener in layers.attached),
        tracking=trackers,
        policy=options.policy,
    )


async def _open_layers(
    store: Store, options: ClientOptions, closing: AsyncExitStack, *, own: OwnFiles
) -> _Layers:
    layers, masker, library = _Layers(), options.masker, None
    if options.knowledge is not None:
        from ctxmgr.knowledge.agent_notes import notes_tools

        library = await attach_notes(store, closing, options.knowledge, own=own, masker=masker)
        layers.contributors += library.contributors
        layers.flushers += library.flushers
        layers.tools += notes_tools(await notes_for_agents(store, library, masker))
    if options.audit is not None:
        layers.attached.append(
            await _audited(store, closing, root=options.audit, lenses=options.audit_lenses)
        )
    elif options.audit_lenses is not None:
        raise Incorrect("audit_lenses score what an audit log records: name its folder as audit")
    if options.experience is not None:
        layers.attached.append(await attach_experience(store, closing, options.experience))
    if library is not None:
        layers.attached.append(await attach_transcripts(store, closing, library, masker))
    if options.memory is not None:
        remembered, tools, learning = await attach_memory(
            store,
            closing,
            options.memory,
            model=options.memory_model,
            masker=masker,
            budget_tokens=memory_budget(options.policy),
        )
        layers.contributors += (remembered,)
        layers.tools += tools
        layers.attached.append(learning)
    return layers


async def _open_recall(
    store: Store, options: ClientOptions, closing: AsyncExitStack, *, mounts: Mounts
) -> RecallSearch | None:
    if options.search is None:
        return None
    from ctxmgr.core.client.recall import Recall

    index = await open_piece_index(options.search)
    closing.push_async_callback(index.close)
    shown_path = partial(display_path, mounts=mounts)
    return Recall(store=store, index=index, masker=options.masker, display_path=shown_path).search


async def _audited(
    store: Store, closing: AsyncExitStack, *, root: Path, lenses: "Lenses | None"
) -> AttachedListener:
    """Record the store's events in an audit log.

    The client gets a function that holds nothing but two events: from what an agent's tools use,
    no attribute leads to the log.
    """
    from ctxmgr.audit.listener import AuditListener
    from ctxmgr.audit.log import AuditLog
    from ctxmgr.core.events.origins import StoreEvents

    log = await closing.enter_async_context(await AuditLog.open(root, be_id=AGENT))
    scores = None if lenses is None else _all_scores(lenses)
    listener = AuditListener(log.writer, StoreEvents(store), scores=scores)
    return await attach_listener(store, closing, listener)


def _all_scores(lenses: "Lenses") -> Callable[[str], Mapping[str, float]]:
    """Return what all lenses say about a text, without those that fail, which is logged."""
    from ctxmgr.experience.lenses.failures import LensFailures

    failures = LensFailures()
    return lambda text: failures.note(lenses.read_text(text)).all


def read_path(given: "str | Path | Opened | None") -> "Path | Opened | None":
    """Read a path that was given as text; ``Incorrect`` if it is neither that nor opened."""
    if isinstance(given, bool | int | float | bytes):
        raise Incorrect(f"a folder or file is named by a path, not by {given!r}")
    return Path(given) if isinstance(given, str) else given


def read_mounts(mounts: tuple[Mapping[str, Any], ...], filesystem_id: str | None) -> Mounts:
    """Read the mounts of a harness that runs its own tools; without any, paths are the host's."""
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


async def _own_files(store: Store, options: ClientOptions) -> OwnFiles:
    database = (await store.status()).details.get("file")
    files = [Path(database)] if isinstance(database, str) else []
    files += [file for file in (options.search, options.fingerprints) if file is not None]
    folders = [folder.absolute() for folder in options.layer_folders if folder is not None]
    return await asyncio.to_thread(
        OwnFiles, [file.absolute() for file in files], folders=[*own_folders(), *folders]
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
    from ctxmgr.settings import data_dir  # loads pydantic

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
