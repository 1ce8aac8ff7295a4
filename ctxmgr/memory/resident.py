"""The memories of a principal in memory, kept in step with the store. Reads the store.

The first question reads all of them; later ones only what other transactions have changed since,
from the store's feed. What is asked is then answered without reading the store: the words of
memories, the order of their usefulness, and which facts disagree.

A rewrite of the store is not in its feed: what was purged stays here until the process ends.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from ctxmgr.core.store.contract import PAGE_MAX, Instant, Query, Store
from ctxmgr.errors import CtxmgrError, ExtraMissing, requires_extra
from ctxmgr.memory.contradictions.slot_index import SlotIndex
from ctxmgr.memory.records.contradiction import CONTRADICTION, Contradiction
from ctxmgr.memory.records.link import LINK, MemoryLink, read_link
from ctxmgr.memory.records.memory import MEMORY, Memory, read_memory, stored_id
from ctxmgr.memory.records.usage import USAGE, MemoryUsage, read_usage
from ctxmgr.memory.repository import MemoryRepository
from ctxmgr.memory.tiers.shortlist import Shortlist

if TYPE_CHECKING:
    from ctxmgr.memory.relevance import MemoryPool
    from ctxmgr.search.embedder import Embedder

RELOAD_TRANSACTIONS: Final = 20_000
"""After so many transactions of others everything is read again, rather than their changes."""

VECTORS_MAX: Final = 5_000
"""Memories up to which their vectors are made: with more of them, the first question would take
longer than a person waits, and words alone decide."""

READ_AT_ONCE: Final = 10_000
"""Documents that are read at once."""

_TextKey: TypeAlias = tuple[str, str, str, str | None]


class ResidentMemories:
    """What a principal may see now."""

    def __init__(
        self, store: Store, repository: MemoryRepository, *, now: Callable[[], Instant]
    ) -> None:
        self._store = store
        self._repository = repository
        self._now = now
        self._sequence: int | None = None
        self._loaded = False
        self._pairs: list[Contradiction] | None = None
        self._links: dict[str, list[MemoryLink]] | None = None
        self._pool: MemoryPool | None = None
        self._lock = asyncio.Lock()
        self.shortlist = Shortlist()
        self.slots = SlotIndex()
        self._texts: dict[_TextKey, str] = {}

    @property
    def project_id(self) -> str:
        """The project of the principal."""
        return self._repository.principal.project_id

    @property
    def is_indexed(self) -> bool:
        """Whether memories can be searched without making an index first."""
        return self._pool is not None

    async def refresh(self) -> None:
        """Take in what was stored since the last call."""
        async with self._lock:
            if not self._loaded:
                await self._load()
                return
            changed: dict[str, None] = {}
            seen = 0
            while page := await self._store.feed(after=self._sequence, documents=False):
                seen += len(page)
                if seen > RELOAD_TRANSACTIONS:
                    await self._load()
                    return
                self._sequence = page[-1].sequence
                changed.update(dict.fromkeys(w.object_id for t in page for w in t.writes))
                if len(page) < PAGE_MAX:
                    break
            await self._take(changed)

    async def index(self) -> None:
        """Index the words and vectors in a thread: of many memories this takes seconds.

        Prompts do not wait that long for memory, and nothing else would go on meanwhile.
        """
        async with self._lock:
            await asyncio.to_thread(self.relevance, "everything")

    async def contradictions(self) -> list[Contradiction]:
        """Return the open contradictions."""
        if self._pairs is None:
            self._pairs = await self._repository.contradictions()
        return self._pairs

    async def links(self) -> Mapping[str, Sequence[MemoryLink]]:
        """Return the links of each memory that has some."""
        if self._links is not None:
            return self._links
        found: dict[str, list[MemoryLink]] = {}
        async for version in self._repository.found(Query(LINK)):
            link = self._repository.readable(read_link, version)
            if link is None:
                continue
            for memory_id in (link.memory_a, link.memory_b):
                found.setdefault(memory_id, []).append(link)
        self._links = found  # complete: another task may have dropped them meanwhile
        return found

    def same(self, memory: Memory) -> Memory | None:
        """Return the memory that says the same for the project already, word for word."""
        known = self._texts.get(_text_key(memory))
        return None if known is None else self.shortlist.memories.get(known)

    def relevance(self, question: str) -> dict[str, float]:
        """Return the score of every memory that matches a question."""
        if not question or not self.shortlist.memories:
            return {}
        today = datetime.fromtimestamp(self._now() / 1_000, tz=UTC).date()
        return self.pool().relevance(question, now=today)

    def pool(self) -> "MemoryPool":
        """Return the index of words and vectors; the first call makes it."""
        if self._pool is None:
            with requires_extra("vectors", "numpy", "snowballstemmer"):
                from ctxmgr.memory.relevance import MemoryPool  # noqa: PLC0415 (loads NumPy)
            few = len(self.shortlist.memories) <= VECTORS_MAX
            self._pool = MemoryPool(_embedder() if few else None)
            for memory in self.shortlist.memories.values():
                self._pool.put(memory)
        return self._pool

    async def _load(self) -> None:
        status = await self._store.status()
        self._sequence = status.sequence
        memories = await self._repository.valid()
        usage: dict[str, MemoryUsage] = {}
        for start in range(0, len(memories), READ_AT_ONCE):
            part = memories[start : start + READ_AT_ONCE]
            usage |= await self._repository.usage(memory.id for memory in part)
        self.shortlist.load(memories, usage, now=self._now())
        self.slots = SlotIndex(memories)
        self._texts = {_text_key(memory): memory.id for memory in memories}
        self._pairs = self._pool = self._links = None
        self._loaded = True

    async def _take(self, changed: Collection[str]) -> None:
        """Read the memories and counters among changed objects again."""
        ids = {
            kind: [each for each in changed if each.startswith(f"{kind}:")]
            for kind in (MEMORY, USAGE, CONTRADICTION)
        }
        if ids[MEMORY] or ids[CONTRADICTION]:
            self._pairs = None
        if any(each.startswith(f"{LINK}:") for each in changed):
            self._links = None
        named = (each.partition(":")[2] for kind in (MEMORY, USAGE) for each in ids[kind])
        wanted = list(dict.fromkeys(named))
        for start in range(0, len(wanted), READ_AT_ONCE):
            await self._read(wanted[start : start + READ_AT_ONCE])

    async def _read(self, memory_ids: Sequence[str]) -> None:
        documents = await self._store.get_many(
            [name for each in memory_ids for name in (stored_id(each), f"{USAGE}:{each}")]
        )
        now = self._now()
        for memory_id in memory_ids:
            version = documents.get(stored_id(memory_id))
            memory = None if version is None else self._repository.readable(read_memory, version)
            self._drop(memory_id)
            if (
                memory is None
                or not memory.visible_to(self._repository.principal)
                or not memory.is_valid_at(max(now, memory.valid_from))
            ):
                continue
            used = documents.get(f"{USAGE}:{memory_id}")
            usage = None if used is None else self._repository.readable(read_usage, used)
            self._put(memory, usage or MemoryUsage(memory_id=memory_id))

    def _put(self, memory: Memory, usage: MemoryUsage) -> None:
        self.shortlist.put(memory, usage)
        self.slots.put(memory)
        self._texts[_text_key(memory)] = memory.id
        if self._pool is not None:
            self._pool.put(memory)

    def _drop(self, memory_id: str) -> None:
        known = self.shortlist.memories.get(memory_id)
        if known is not None:
            self._texts.pop(_text_key(known), None)
        self.shortlist.remove(memory_id)
        self.slots.remove(memory_id)
        if self._pool is not None:
            self._pool.remove(memory_id)


def _text_key(memory: Memory) -> _TextKey:
    """What holds in one project has to be stored in another one as well."""
    project = None if memory.holds_in("") else memory.project_id
    return memory.content_hash, str(memory.visibility), str(memory.kind), project


@cache
def _embedder() -> "Embedder | None":
    """Return the word vectors of the extra, loaded once; without them, words alone decide."""
    try:
        from ctxmgr.search.static_vectors import StaticEmbedder  # noqa: PLC0415

        return StaticEmbedder.load()
    except (ExtraMissing, CtxmgrError):
        return None
