"""``XDB``, the door of the experience layer: record, recall, annotate. Touches its folder.

    storage_path/experience       the log
    storage_path/concepts.pack    the concept pack, unless another one is given
    storage_path/documents        reference documents to read; they are kept in the core store
    storage_path/exports          packages of evidence

An ``XDB`` has one current session. The audit log is not a part of it, and cannot be reached from
here.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Self

from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import Listener
from ctxmgr.core.events.origins import EventSource
from ctxmgr.core.objects.compaction import CompactionRecord
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import CtxmgrError, Incorrect
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.context_window import ContextWindowManager
from ctxmgr.experience.documents.document import Document, DocumentType
from ctxmgr.experience.documents.repository import DocumentRepository, FolderSync
from ctxmgr.experience.lenses.failures import LensFailures
from ctxmgr.experience.lenses.lens import Lens, Lenses, LensPolicy, highest
from ctxmgr.experience.lenses.load import load_lenses
from ctxmgr.experience.lenses.stream import LensStream
from ctxmgr.experience.listener import ExperienceListener
from ctxmgr.experience.log.batches import TOP_K
from ctxmgr.experience.log.filters import LIMIT
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.annotations import Comment, Tag, choose_target
from ctxmgr.experience.records.contents import storable
from ctxmgr.experience.records.kinds import BudStatus, TagType
from ctxmgr.experience.records.timestep import (
    NewTimestep,
    Role,
    TimestepRecord,
    check_session_id,
    timestep_id,
)
from ctxmgr.experience.streams import TokenStream
from ctxmgr.experience.tags.index import TagIndex
from ctxmgr.experience.windows.evidence import EvidencePackage
from ctxmgr.experience.windows.lifecycle_contract import TRIBAL_MINIMUMS, LifecycleContract
from ctxmgr.experience.windows.storage_manager import StorageManager
from ctxmgr.experience.windows.window_book import WindowBook

LOG_FOLDER: Final = "experience"
CONCEPT_PACK: Final = "concepts.pack"
DOCUMENTS_FOLDER: Final = "documents"
EXPORTS_FOLDER: Final = "exports"
SURPRISING: Final = ("surprising", "confusing", "interesting", "unexpected")
"""The tags of ``recall_surprising``."""

AUTO_TAGS_MAX: Final = 3
"""Tags that lenses apply to one event; the log has all scores anyway."""

CONCEPT_SCORE_MIN: Final = 0.5
"""A concept that is asked for without a score has at least this one."""

_log = logging.getLogger(__name__)


class XDB:
    """The experience of one agent. Use it with ``async with XDB(path, be_id) as xdb``.

    With a concept pack, its gloss lens scores what is recorded; ``lenses`` are asked as well.
    ``lens_policy`` says which concepts the agent may see. ``auto_tags`` applies the tags of
    concepts that score highly to the events that are recorded.
    """

    def __init__(
        self,
        storage_path: Path,
        be_id: str,
        concept_pack_path: Path | None = None,
        *,
        top_k: int = TOP_K,
        lenses: Sequence[Lens] = (),
        lens_policy: LensPolicy = LensPolicy(),  # noqa: B008 (it is frozen)
        auto_tags: bool = True,
        create: bool = True,
        contract: LifecycleContract = TRIBAL_MINIMUMS,
    ) -> None:
        self.storage_path = storage_path
        self.be_id = be_id
        self._concept_pack_path = concept_pack_path
        self._top_k = top_k
        self._create = create
        self._other_lenses = tuple(lenses)
        self._lens_policy = lens_policy
        self._auto_tags = auto_tags
        self._lenses: Lenses | None = None
        self._lens_failures = LensFailures()
        self._token_lenses: LensStream | None = None
        self._token_event: str | None = None
        self._loaded = False
        self._documents: DocumentRepository | None = None
        self._closing = ExitStack()
        self._tags: TagIndex | None = None
        self.contract = contract
        """The limits: of the context, of what is retained, and of compressed records."""
        self._log: ExperienceLog | None = None
        self._stream: TokenStream | None = None
        self.session_id: str | None = None
        """The current session; None: ``start_session`` was not called."""
        self.current_tick = 0
        """The last tick of the current session that was recorded here."""
        self.context_manager: ContextWindowManager | None = None
        """The context of the current session."""
        self._counting = asyncio.Lock()
        """Held while the context counts, which may compact it. Nothing flushes under it."""
        self._restored_tick = 0
        """Up to here the context has counted what was in the log when the session started."""

    async def __aenter__(self) -> Self:
        self._log = await ExperienceLog.open(
            self.storage_path / LOG_FOLDER, top_k=self._top_k, create=self._create
        )
        self._stream = TokenStream(self._log, on_appended=self._count_recorded)
        try:
            graph = await asyncio.to_thread(self._open_pack)
            self._tags = TagIndex(self._log.file, self._log, be_id=self.be_id, concept_graph=graph)
        except BaseException:
            await self.__aexit__()
            raise
        if self._other_lenses:
            self._lenses = Lenses(
                lenses=self._other_lenses, policy=self._lens_policy, top_k=self._top_k
            )
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if self._stream is not None:
                await self._stream.close()
        finally:
            log, self._log = self._log, None
            try:
                if log is not None:
                    await log.close()
            finally:
                self._closing.close()

    @property
    def experience_log(self) -> ExperienceLog:
        if self._log is None:
            raise Incorrect("the XDB is not open: use `async with XDB(…) as xdb`")
        return self._log

    @property
    def tag_index(self) -> TagIndex:
        if self._tags is None:
            raise Incorrect("the XDB is not open: use `async with XDB(…) as xdb`")
        return self._tags

    @property
    def documents(self) -> DocumentRepository:
        """The reference documents; ``Incorrect`` until ``use_documents`` was called."""
        if self._documents is None:
            raise Incorrect("documents are kept in a store: call use_documents(store) first")
        return self._documents

    # Concepts and documents.

    async def load_concepts(self) -> None:
        """Load the tags in use, and the lenses of the concept pack.

        ``start_session`` does it as well. Until then nothing is scored by the pack's lens.
        """
        if self._loaded:
            return
        graph = self.tag_index.concept_graph
        if graph is not None:
            self._lenses = await asyncio.to_thread(
                load_lenses,
                graph,
                others=self._other_lenses,
                policy=self._lens_policy,
                top_k=self._top_k,
            )
        await self.tag_index.load_working_set()
        self._loaded = True

    def activations(self, text: str) -> Mapping[str, float]:
        """Return what the lenses say about a text, as far as the agent may see it."""
        if self._lenses is None:
            return {}
        return self._lens_failures.note(self._lenses.read_text(text)).visible

    def token_activations(self, token: str, *, event_id: str | None) -> Mapping[str, float]:
        """Return what the lenses say after a token of a stream; an event is a stream of its own."""
        if self._lenses is None:
            return {}
        if self._token_lenses is None or event_id != self._token_event:
            self._token_lenses = LensStream(self._lenses)
            self._token_event = event_id
        before = self._token_lenses.reading
        reading = self._token_lenses.read(token)
        if reading is not before:  # within a word, no lens is asked
            self._lens_failures.note(reading)
        return reading.visible

    @property
    def failing_lenses(self) -> Mapping[str, str]:
        """The lenses whose last scores are missing, and what was wrong; they are asked again."""
        return self._lens_failures.failing

    async def use_documents(self, store: Store) -> FolderSync | None:
        """Keep reference documents in a store, and read those of the folder ``documents``."""
        self._documents = DocumentRepository(store)
        folder = self.storage_path / DOCUMENTS_FOLDER
        return await self._documents.sync_folder(folder) if folder.is_dir() else None

    async def get_document(self, path: str) -> Document | None:
        return await self.documents.get_by_path(path)

    async def search_documents(
        self, query: str, doc_type: DocumentType | None = None
    ) -> list[Document]:
        return await self.documents.search(query, doc_type=doc_type)

    async def list_documents(self, doc_type: DocumentType | None = None) -> list[Document]:
        return await self.documents.list_documents(doc_type)

    # What is kept, and how long.

    @property
    def windows(self) -> WindowBook:
        """The windows of recorded experience: retain, expire, submit, resolve."""
        quota = self.contract.resources.memory.warm_quota_tokens
        return WindowBook(self.experience_log, warm_quota_tokens=quota, top_k=self._top_k)

    def storage_manager(self, max_storage_bytes: int | None = None) -> StorageManager:
        """Return what compresses cold records; the limit is the contract's unless it is given."""
        limit = self.contract.resources.memory.cold_storage_bytes
        return StorageManager(
            self.experience_log.file,
            max_storage_bytes=limit if max_storage_bytes is None else max_storage_bytes,
            top_k=self._top_k,
        )

    async def export_submission(self, submission_id: str) -> EvidencePackage:
        """Write the evidence of a submission to ``exports/{submission_id}``."""
        exports = self.storage_path / EXPORTS_FOLDER
        return await self.windows.export_submission(submission_id, exports, be_id=self.be_id)

    # Sessions and recording.

    async def start_session(self, session_id: str, max_context_tokens: int | None = None) -> None:
        """Make a session the current one; a known one continues after its last tick.

        Its context holds as many tokens as the contract says, 8,192 without one. When it is full,
        its oldest half is compacted, and expires unless it is retained.
        """
        check_session_id(session_id)
        memory = self.contract.resources.memory
        context = ContextWindowManager(
            memory.context_window_tokens if max_context_tokens is None else max_context_tokens,
            self.experience_log,
            session_id=session_id,
            windows=self.windows,
        )
        async with self._counting:
            await context.restore()
            self._restored_tick = self.current_tick = context.get_context_state().current_tick
            self.session_id, self.context_manager = session_id, context
        await self.load_concepts()

    async def end_session(self) -> None:
        """Leave the current session."""
        self.session_id = self.context_manager = None
        self.current_tick = 0

    def get_context_state(self) -> dict[str, Any]:
        """Return how full the context of the session is; an ``error`` if there is no session."""
        if self.context_manager is None:
            return {"error": "no session is active: call start_session first"}
        return asdict(self.context_manager.get_context_state())

    async def request_compaction(self) -> CompactionRecord | None:
        """Compact the oldest half of the context now; None if there is no session."""
        async with self._counting:
            if self.context_manager is None:
                return None
            return await self.context_manager.request_compaction()

    async def record(
        self,
        event_type: EventType,
        content: str,
        concept_activations: Mapping[str, float] | None = None,
        *,
        event_id: str | None = None,
        event_start: bool = False,
        event_end: bool = False,
        token_id: int | None = None,
        role: Role | None = None,
        token_count: int = 1,
    ) -> str:
        """Store a timestep of the current session durably; return its id.

        Its tokens count in the context, whose oldest half is compacted when it is full.
        """
        session_id = self._session()
        if token_count < 0:
            raise Incorrect(f"a timestep has no fewer than 0 tokens, not {token_count}")
        step = NewTimestep(
            timestamp=_now(),
            event_type=event_type,
            content=content,
            concept_activations=self._visible(concept_activations or {}),
            event_id=event_id,
            event_start=event_start,
            event_end=event_end,
            token_id=token_id,
            role=role,
        )
        appended = await self.experience_log.append(session_id, [step])
        assert appended is not None
        await self._count(session_id, [(appended.last_tick, token_count)])
        return timestep_id(session_id, appended.last_tick)

    # Recall.

    async def recall(
        self,
        *,
        tags: Sequence[str] | None = None,
        concepts: Sequence[str] | None = None,
        text_search: str | None = None,
        tick_range: tuple[int, int] | None = None,
        time_range: tuple[int, int] | None = None,
        event_types: Sequence[str] | None = None,
        session_id: str | None = None,
        limit: int = LIMIT,
    ) -> list[TimestepRecord]:
        """Return timesteps of a session, by default the current one, that match all filters.

        Of ``tags``, names or ids, one is enough; each of ``concepts`` has a score of at least 0.5.
        A tag that does not exist was applied to nothing.
        """
        wanted = dict.fromkeys(concepts or (), (CONCEPT_SCORE_MIN, 1.0))
        return await self.experience_log.query(
            session_id=session_id or self.session_id,
            tick_range=tick_range,
            time_range=time_range,
            event_types=event_types,
            tags=None if tags is None else await self.tag_ids(tags),
            concept_activations=wanted,
            text_search=text_search,
            limit=limit,
        )

    async def recall_by_concept(
        self, concept_id: str, min_activation: float = CONCEPT_SCORE_MIN, limit: int = LIMIT
    ) -> list[TimestepRecord]:
        """Return the timesteps of all sessions with such a score of a concept, highest first."""
        found = await self.experience_log.top_by_concept(
            concept_id, minimum=min_activation, limit=limit
        )
        return [step.record for step in found]

    async def recall_surprising(self, limit: int = 50) -> list[TimestepRecord]:
        """Return what was tagged surprising, confusing, interesting or unexpected."""
        return await self.recall(tags=SURPRISING, limit=limit)

    # Annotate.

    async def tag(
        self,
        tag_name_or_id: str,
        *,
        timestep_id: str | None = None,
        event_id: str | None = None,
        tick_range: tuple[int, int] | None = None,
        confidence: float = 1.0,
        note: str | None = None,
        inherit: bool = False,
    ) -> str:
        """Tag one timestep, event or range of ticks; return the id of the application.

        The tag is found by its id, then by its name, and is created if there is none. With
        ``inherit``, the concepts above it are applied as well.
        """
        target = choose_target(
            self.session_id, timestep_id=timestep_id, event_id=event_id, tick_range=tick_range
        )
        application = await self.tag_index.apply(
            tag_name_or_id, target, confidence=confidence, note=note, inherit=inherit
        )
        return application.id

    async def create_entity_tag(
        self, name: str, entity_type: str, description: str | None = None
    ) -> Tag:
        """Create a tag for a person, an organization, a place or a thing."""
        return await self.tag_index.create_tag(
            name, TagType.ENTITY, entity_type=entity_type, description=description
        )

    async def create_bud_tag(
        self, name: str, description: str, related_concepts: Sequence[str] = ()
    ) -> Tag:
        """Create a bud: a tag that collects examples of something that has no concept yet."""
        return await self.tag_index.create_tag(
            name, TagType.BUD, description=description, related_concepts=related_concepts
        )

    async def get_buds(self, status: BudStatus | None = None) -> list[Tag]:
        """Return the buds, of one status or of all."""
        return await self.tag_index.get_buds(status)

    async def get_bud_examples(self, bud_tag_id: str) -> list[TimestepRecord]:
        """Return the timesteps that a bud was applied to."""
        return await self.tag_index.get_bud_examples(bud_tag_id)

    async def mark_bud_ready(self, bud_tag_id: str) -> Tag:
        """Note that a bud has enough examples."""
        return await self.tag_index.update_bud_status(bud_tag_id, BudStatus.READY)

    async def browse_concepts(self, parent: str | None = None) -> list[Tag]:
        """Return the concepts below one, or the roots of the pack."""
        return await asyncio.to_thread(self.tag_index.browse_concepts, parent)

    async def find_concept(self, query: str) -> list[Tag]:
        """Return the concepts whose name begins so."""
        return await asyncio.to_thread(self.tag_index.find_concept, query)

    async def comment(
        self,
        content: str,
        *,
        timestep_id: str | None = None,
        event_id: str | None = None,
        tick_range: tuple[int, int] | None = None,
    ) -> str:
        """Comment on one timestep, event or range of ticks; return the comment's id."""
        target = choose_target(
            self.session_id, timestep_id=timestep_id, event_id=event_id, tick_range=tick_range
        )
        comment = Comment(
            id=f"comment-{uuid.uuid4().hex[:12]}",
            content=storable(content),
            created_at=_now(),
            **target.fields(),
        )
        return await self.experience_log.add_comment(comment)

    # What happens in a store, and what a model streams.

    def listener(self, source: EventSource) -> Listener:
        """Return a listener that records what happens in a store."""
        assert self._stream is not None, "the XDB is open"
        return ExperienceListener(
            self.experience_log,
            source,
            stream=self._stream,
            activations=self.activations,
            on_appended=self._count_recorded,
            on_recorded=self._tag_recorded if self._auto_tags else None,
        )

    def stream(self, step: NewTimestep, *, token_count: int = 1) -> None:
        """Record a timestep of the current session soon; returns at once.

        Its tokens count in the context when it is in the log.
        """
        assert self._stream is not None, "the XDB is open"
        if token_count < 0:
            raise Incorrect(f"a timestep has no fewer than 0 tokens, not {token_count}")
        visible = self._visible(step.concept_activations)
        self._stream.add(
            self._session(), replace(step, concept_activations=visible), tokens=token_count
        )

    async def flush(self) -> None:
        """Wait until everything that was streamed is in the log and counted."""
        assert self._stream is not None, "the XDB is open"
        await self._stream.flush()

    async def get_state(self) -> dict[str, Any]:
        """Return what there is: counts, the current session and how full its context is."""
        tags, buds = await self.tag_index.count()
        documents = [] if self._documents is None else await self._documents.list_documents()
        return {
            "be_id": self.be_id,
            "session_id": self.session_id,
            "current_tick": self.current_tick,
            "tag_count": tags,
            "bud_count": buds,
            "document_count": len(documents),
            "context": self.get_context_state(),
        }

    def _open_pack(self) -> ConceptGraph | None:
        default = self.storage_path / CONCEPT_PACK
        path = self._concept_pack_path or (default if default.exists() else None)
        return None if path is None else self._closing.enter_context(ConceptGraph.opened(path))

    async def _count(self, session_id: str, counts: Sequence[tuple[int, int]]) -> None:
        """Count the ticks and tokens of steps in the context, if they are of its session.

        Other tasks append too, so steps may be counted in another order than that of their ticks.
        """
        async with self._counting:
            context = self.context_manager
            if context is None or session_id != self.session_id:
                return
            failed = None
            for tick, tokens in counts:
                if tick > self._restored_tick:
                    self.current_tick = max(tick, self.current_tick)
                    try:
                        await context.add_tokens(tokens, self.current_tick)
                    except CtxmgrError as error:  # of a compaction; the tokens are counted
                        failed = failed or error
            if failed is not None:
                raise failed

    async def _count_recorded(self, session_id: str, counts: Sequence[tuple[int, int]]) -> None:
        """Count what no caller waits for; a compaction that fails is tried with the next step."""
        try:
            await self._count(session_id, counts)
        except CtxmgrError as error:
            _log.warning("the context of %s was not compacted: %s", session_id, error)

    async def _tag_recorded(self, session_id: str, steps: Sequence[NewTimestep]) -> None:
        """Apply the tags of the highest concepts to the events that were recorded."""
        by_event: dict[str, dict[str, float]] = {}
        for step in steps:
            if step.event_id is not None:
                scores = by_event.setdefault(step.event_id, {})
                for concept_id, score in step.concept_activations.items():
                    scores[concept_id] = max(score, scores.get(concept_id, 0.0))
        for event_id, scores in by_event.items():
            target = choose_target(session_id, event_id=event_id)
            await self.tag_index.apply_activations(target, highest(scores, AUTO_TAGS_MAX))

    async def tag_ids(self, names_or_ids: Sequence[str]) -> list[str]:
        """Return the ids of tags that are given by id or name; unknown ones are left out."""
        found = [await self.tag_index.resolve(each) for each in names_or_ids]
        return [tag.id for tag in found if tag is not None]

    def _visible(self, activations: Mapping[str, float]) -> dict[str, float]:
        """Return the scores that the agent may see; others are for the audit log alone."""
        visible = self._lens_policy.visible
        return {name: score for name, score in activations.items() if visible(name)}

    def _session(self) -> str:
        if self.session_id is None:
            raise Incorrect("no session is active: call start_session first")
        return self.session_id


def _now() -> int:
    return time.time_ns() // 1_000_000
