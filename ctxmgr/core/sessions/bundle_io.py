"""Sessions into bundles, which are gzip files, and back. Reads and writes a store.

Exported is all that the session's past needs: its own documents, every version of each object of
its index, and the same of the sessions it was forked from.

Importing writes what the store does not have yet, transaction by transaction in their order, each
version with its valid time: it can be repeated after a crash. What the store already holds does not
change: a session of that name with another past is refused, and a file that other sessions use
keeps its versions.
"""

import asyncio
import gzip
import io
import time
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Final, Self, TypeAlias

from ctxmgr.core.events.lifecycle import LIFECYCLE
from ctxmgr.core.objects.codec import check_toolcall_id
from ctxmgr.core.objects.compaction import COMPACTION, compaction_id
from ctxmgr.core.objects.envelope import (
    CHAT,
    FILE,
    POLICY,
    SESSION,
    SYSTEM_PROMPT,
    TOOLCALL,
    TURN,
    chat_id,
    policy_id,
    session_object_id,
    system_prompt_id,
    turn_id,
)
from ctxmgr.core.objects.session_record import SETS
from ctxmgr.core.sessions.bundle import (
    NO_BUNDLE,
    Bundle,
    BundledWrite,
    BundleWriter,
    Versions,
    version_hash,
)
from ctxmgr.core.sessions.bundle_checks import CheckRecord, ObjectChecks
from ctxmgr.core.sessions.bundle_limits import LINE_BYTES_MAX, BundleBudget
from ctxmgr.core.sessions.lineage import ANCESTORS_MAX, FORK, imported_document, lineage
from ctxmgr.core.sessions.storage import compaction_ids
from ctxmgr.core.store.contract import INSTANT_MAX, AsOf, Instant, Put, Query, Store
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.core.store.queries import batched
from ctxmgr.errors import BundleDamaged, Incorrect, NotFound

_LONG_FIELDS: Final = ("content", "turns", "shown", "policy", *SETS)
"""Fields that are not needed to learn whether an object is stored."""

IDS_AT_ONCE: Final = 500
"""Objects looked up at once."""

_GZIP: Final = b"\x1f\x8b"
"""The first bytes of every gzip file."""

SESSIONS_PAGE: Final = 100
"""Sessions read at once when a file's other users are looked for."""

HISTORY_PAGE: Final = 500
"""Versions read at once. Those of a long chat share their turns; a store ends a page that is too
large for memory."""


Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many of how many are done."""


async def export_session(
    store: Store, session_id: str, *, progress: Progress = lambda _done, _total: None
) -> tuple[bytes, str]:
    """Return a session's bundle and its root hash; ``NotFound`` if there is none."""
    packing = BundleWriter()
    object_ids: dict[str, None] = {}
    for ancestor in await lineage(store, session_id):
        object_ids |= dict.fromkeys(await _object_ids(store, ancestor.session_id))
    for number, object_id in enumerate(object_ids, start=1):
        await _pack(store, packing, object_id)
        progress(number, len(object_ids))
    data, root = packing.to_bytes(session_id)
    return await asyncio.to_thread(_packed, data), root


async def import_session(store: Store, data: bytes, *, check_record: CheckRecord) -> str:
    """Check a bundle, store what it holds, and return the session's id."""
    checked = await check_bundle(data, check_record=check_record)
    return await import_checked(store, checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBundle:
    """A bundle that holds what ``export_session`` writes, and nothing else."""

    bundle: Bundle
    contents: "BundleContents" = field(repr=False)
    sessions: Mapping[str, int] = field(repr=False)
    """The session and those it was forked from, with the number of turns that are needed."""


async def check_bundle(data: bytes, *, check_record: CheckRecord) -> CheckedBundle:
    """Check a bundle without a store.

    Only what ``export_session`` writes is accepted: the documents of the session and of the
    sessions it was forked from, and the objects in their indexes, each with every field as a
    client stores it. ``check_record`` checks turn records. ``Incorrect`` if it is not a bundle or
    costs too much, ``BundleDamaged`` if it is not as it was exported.
    """
    return await asyncio.to_thread(_check_bundle, data, check_record)


def _check_bundle(data: bytes, check_record: CheckRecord) -> CheckedBundle:
    budget = BundleBudget(len(data))
    bundle = Bundle.from_lines(partial(_unpacked_lines, data, budget), budget=budget)
    contents = BundleContents.of(bundle, check_record=check_record)
    sessions = contents.sessions(bundle.session_id)
    contents.check_belongs_to(sessions)
    return CheckedBundle(bundle=bundle, contents=contents, sessions=sessions)


async def import_checked(
    store: Store, checked: CheckedBundle, *, progress: Progress = lambda _done, _total: None
) -> str:
    """Store what a bundle holds, and return the session's id.

    Nothing else that the store holds changes: a session, a tool call or a file version that is
    there already keeps its place. ``Incorrect`` before the first write if the bundle contradicts
    what the store holds.
    """
    bundle, contents, sessions = checked.bundle, checked.contents, checked.sessions
    there = await _stored_hashes(store, contents.hashes)
    await _check_lineage(store, contents, sessions, there)
    kept = _kept_as_they_are(contents, sessions, there)
    slots = await _slots_of_known_files(store, contents, sessions, there)
    # An empty store has no time of its own yet; a machine's clock may be behind its store.
    now = max(time.time_ns() // 1_000_000, (await store.status()).system_time or 0)
    marks = [
        Put(imported_document(session_id, root=bundle.root))
        for session_id in sessions
        if session_id == bundle.session_id or not there[session_object_id(session_id)]
    ]
    total = sum(len(hashes) for hashes in contents.hashes.values())
    stored = 0
    for transaction in bundle.transactions_again():
        stored += len(transaction.writes)
        progress(min(stored, total), total)
        puts = [
            _put(write, now=now, slot=slots.get(write.document[ID]))
            for write in transaction.writes
            if write.document[ID] not in kept and write.hash not in there[write.document[ID]]
        ]
        if puts:
            # With the first, so that no part of an import is without its mark.
            await store.commit([*puts, *marks])
            marks = []
    return bundle.session_id


@dataclass(slots=True)
class BundleContents:
    """What a bundle holds, each document verified."""

    hashes: dict[str, set[str | None]] = field(default_factory=dict)
    """The hashes of each object's versions."""
    newest: dict[str, Document] = field(default_factory=dict)
    """The last version of each object."""

    @classmethod
    def of(cls, bundle: Bundle, *, check_record: CheckRecord) -> Self:
        contents = cls()
        checks: dict[str, ObjectChecks] = {}

        def verify(document: Document, changes: Document, metadata: Callable[[], str]) -> None:
            object_id, kind = document[ID], document[KIND]
            if object_id not in checks:
                checks[object_id] = ObjectChecks(kind, check_record=check_record)
            elif kind == TOOLCALL:
                raise BundleDamaged("a tool call has one version")
            checks[object_id].check(document, changes, metadata=metadata)

        for transaction in bundle.transactions(verify):
            for write in transaction.writes:
                object_id = write.document[ID]
                contents.hashes.setdefault(object_id, set()).add(write.hash)
                contents.newest[object_id] = write.document
        return contents

    def sessions(self, session_id: str) -> dict[str, int]:
        """Return the session and those it was forked from, with the number of turns needed.

        A fork has the turns of its parent up to the fork: whoever names a session as the parent
        must have what it said.
        """
        chat = self._require(chat_id(session_id), CHAT)
        found = {session_id: chat["turn_count"]}
        while (fork := self.newest.get(f"{FORK}:{session_id}")) is not None:
            parent, turn = fork["parent"], fork["turn"]
            if parent in found or len(found) >= ANCESTORS_MAX:
                raise BundleDamaged(f"session {parent!r:.80} is its own ancestor")
            parents_chat = self._require(chat_id(parent), CHAT)
            if len(parents_chat["turns"]) < turn or (
                parents_chat["turns"][:turn] != chat["turns"][:turn]
            ):
                raise BundleDamaged(
                    f"session {session_id!r:.80} does not begin with the turns of {parent!r:.80}"
                )
            session_id, chat, found[parent] = parent, parents_chat, turn
        return found

    def check_belongs_to(self, sessions: Collection[str]) -> None:
        """Refuse whatever an export of these sessions would not hold."""
        kinds: dict[str, str] = {}
        index: set[str] = set()
        for session_id in sessions:
            turns = self._require(chat_id(session_id), CHAT)["turn_count"]
            index.update(self._require(session_object_id(session_id), SESSION)["session_index"])
            self._require(system_prompt_id(session_id), SYSTEM_PROMPT)
            kinds |= _own_kinds(session_id, turns=turns)
        chats = {chat_id(session_id) for session_id in sessions}
        for object_id, document in self.newest.items():
            kind = document[KIND]
            if object_id in kinds:
                belongs = kind == kinds[object_id]
            elif kind == TOOLCALL:
                belongs = object_id in index and document["chat_ref"] in chats
                belongs = belongs and not _is_reserved(object_id)
            else:
                belongs = object_id in index and kind == FILE
            if not belongs:
                raise BundleDamaged(f"{object_id!r:.80} ({kind}) belongs to none of its sessions")
        missing = index - self.newest.keys()
        if missing:
            raise BundleDamaged(f"an index lists {min(missing)!r:.80}, which the bundle lacks")

    def _require(self, object_id: str, kind: str) -> Document:
        document = self.newest.get(object_id)
        if document is None or document[KIND] != kind:
            raise BundleDamaged(f"the bundle lacks {object_id!r:.80}")
        return document


def _is_reserved(object_id: str) -> bool:
    """Return whether an id would be taken for a document of some session."""
    try:
        check_toolcall_id(object_id)
    except Incorrect:
        return True
    return False


def _own_kinds(session_id: str, *, turns: int) -> dict[str, str]:
    """Return the ids of a session's own documents, with the kind of each."""
    return {
        system_prompt_id(session_id): SYSTEM_PROMPT,
        chat_id(session_id): CHAT,
        session_object_id(session_id): SESSION,
        f"{LIFECYCLE}:{session_id}": LIFECYCLE,
        f"{FORK}:{session_id}": FORK,
        policy_id(session_id): POLICY,
        **{turn_id(session_id, number=number): TURN for number in range(1, turns + 1)},
        # Each compacts at least one turn.
        **{compaction_id(session_id, number=n): COMPACTION for n in range(1, turns + 1)},
    }


def _kept_as_they_are(
    contents: BundleContents, sessions: Mapping[str, int], there: Mapping[str, set[str]]
) -> set[str]:
    """Return the ids that are not written, because the store has its own; refuse another past."""
    kept: set[str] = set()
    for position, (session_id, turns) in enumerate(sessions.items()):
        # Not part of the past that prompts are rebuilt from: the store keeps its own.
        present = {f"{LIFECYCLE}:{session_id}", policy_id(session_id)}
        own = set(_own_kinds(session_id, turns=turns)) & contents.hashes.keys() - present
        is_ancestor = position > 0 and bool(there[session_object_id(session_id)])
        for object_id in own:
            held, bundled = there[object_id], contents.hashes[object_id]
            if not (held <= bundled or (is_ancestor and bundled <= held)):
                raise Incorrect(f"this store has another {object_id}; it is not overwritten")
            if is_ancestor and not held:
                raise Incorrect(f"this store has session {session_id}, but not {object_id}")
        if is_ancestor:
            every = _own_kinds(session_id, turns=contents.newest[chat_id(session_id)]["turn_count"])
            kept |= every.keys()
        else:
            kept |= {
                object_id
                for object_id in present
                if not there.get(object_id, set()) <= contents.hashes.get(object_id, set())
            }
    for object_id, document in contents.newest.items():
        different = there[object_id] and there[object_id] != contents.hashes[object_id]
        if document[KIND] == TOOLCALL and different:
            raise Incorrect(f"this store has another {object_id}; it is not overwritten")
    return kept


async def _check_lineage(
    store: Store,
    contents: BundleContents,
    sessions: Mapping[str, int],
    there: Mapping[str, set[str]],
) -> None:
    """Refuse a bundle that tells of a session of this store less than a fork of it needs.

    Whoever may read a fork may read the turns it began with. So a bundle that names a session of
    this store as a parent must hold each of these turns.
    """
    begins_at = 0
    for session_id, turns in reversed(list(sessions.items())):
        fork = f"{FORK}:{session_id}"
        is_parent = next(iter(sessions)) != session_id
        if is_parent and there[session_object_id(session_id)]:
            needed = [turn_id(session_id, number=n) for n in range(begins_at + 1, turns + 1)]
            missing = [object_id for object_id in needed if object_id not in contents.hashes]
            if missing:
                raise Incorrect(f"the bundle lacks {missing[0]!r:.80} of a session in this store")
            if fork not in contents.hashes and await store.get(fork) is not None:
                raise Incorrect(f"this store has another {session_id!r:.80}, which is a fork")
        begins_at = turns


async def _slots_of_known_files(
    store: Store,
    contents: BundleContents,
    sessions: Collection[str],
    there: Mapping[str, set[str]],
) -> dict[str, Instant]:
    """Return, for each file that the store knows by itself, the instant before its first version.

    What other sessions see of such a file, now or as of any moment, must not change. Versions that
    only the bundle has are put before all others, where past prompts find them by their hash.
    """
    known = {
        object_id
        for object_id, document in contents.newest.items()
        if document[KIND] == FILE
        and there[object_id]
        and not contents.hashes[object_id] <= there[object_id]
    }
    # versions that all come from this bundle may be those of an import that was interrupted
    unclear = {object_id for object_id in known if there[object_id] <= contents.hashes[object_id]}
    if unclear:
        known -= unclear - await _objects_of_others(store, unclear, sessions)
    slots = {}
    for object_id in known:
        first = (await store.history(object_id, documents=False, limit=1)).entries[0]
        # Nothing is before 1970: what is known of that very millisecond is given up.
        slots[object_id] = max(first.valid_time - 1, 0)
    return slots


async def _objects_of_others(
    store: Store, object_ids: set[str], sessions: Collection[str]
) -> set[str]:
    found: set[str] = set()
    cursor = None
    while found < object_ids:
        page = await store.find(Query(SESSION), limit=SESSIONS_PAGE, cursor=cursor)
        for version in page.versions:
            # A shared server may hold documents of other programs under this kind.
            index = version.document.get("session_index")
            if version.document.get("session_id") not in sessions and isinstance(index, list):
                found.update(object_ids.intersection(index))
        cursor = page.cursor
        if cursor is None:
            break
    return found


def _put(write: BundledWrite, *, now: Instant, slot: Instant | None) -> Put:
    if slot is not None and write.valid_from >= slot:
        return Put(
            write.document, valid_from=slot, valid_to=slot + 1, checked=True, grown=write.grown
        )
    past = write.valid_from < now  # a clock that ran ahead must not hide what comes next
    return Put(
        write.document,
        valid_from=write.valid_from if past else None,
        checked=True,
        grown=write.grown,
    )


async def _pack(store: Store, packing: BundleWriter, object_id: str) -> None:
    """Pack an object's versions as they are read; where some were backdated, in their order."""
    versions = Versions()
    async for sequence, write in _history(store, object_id):
        if not versions.follows(sequence):
            entries = [entry async for entry in _history(store, object_id)]
            packing.add(sorted(entries, key=itemgetter(0)))
            return
        versions.add(sequence, write)
    packing.take(versions)


async def _object_ids(store: Store, session_id: str) -> list[str]:
    session = await store.get(session_object_id(session_id))
    chat = await store.get(chat_id(session_id))
    if session is None or chat is None:
        raise NotFound(f"there is no session {session_id}")
    turns = range(1, chat.document["turn_count"] + 1)
    return [
        *(system_prompt_id(session_id), chat_id(session_id), session_object_id(session_id)),
        *(f"{LIFECYCLE}:{session_id}", f"{FORK}:{session_id}", policy_id(session_id)),
        *(turn_id(session_id, number=n) for n in turns),
        *await compaction_ids(store, session_id),
        *session.document["session_index"],
    ]


async def _history(store: Store, object_id: str) -> AsyncIterator[tuple[int, BundledWrite]]:
    cursor = None
    while True:
        page = await store.history(object_id, corrections=True, limit=HISTORY_PAGE, cursor=cursor)
        for entry in page.entries:
            if entry.document is not None:
                write = BundledWrite(document=entry.document, valid_from=entry.valid_time)
                yield entry.sequence, write
        cursor = page.cursor
        if cursor is None:
            return


async def _stored_hashes(store: Store, object_ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the hashes of the versions that the store has of each object."""
    hashes: dict[str, set[str]] = {}
    for batch in batched(object_ids, IDS_AT_ONCE):
        # As of the last instant: a version may lie in the future of this machine's clock.
        end = AsOf(valid_time=INSTANT_MAX)
        known = await store.get_many(batch, as_of=end, without=_LONG_FIELDS)
        for object_id in batch:
            hashes[object_id] = await _hashes(store, object_id) if object_id in known else set()
    return hashes


async def _hashes(store: Store, object_id: str) -> set[str]:
    return {version_hash(write.document) async for _, write in _history(store, object_id)}


def _packed(data: bytes) -> bytes:
    """Compress a bundle, unless it would then unpack to more than an import accepts."""
    packed = gzip.compress(data, mtime=0)
    if len(data) > BundleBudget(len(packed)).unpacked_max:
        return gzip.compress(data, compresslevel=0, mtime=0)
    return packed


def _unpacked_lines(data: bytes, budget: BundleBudget) -> Iterator[bytes]:
    """Unpack line by line, so that no more than a line is in memory."""
    unpacked = 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while True:
            try:
                line = file.readline(LINE_BYTES_MAX + 1)
            except (OSError, EOFError, zlib.error) as error:
                if not data.startswith(_GZIP):
                    raise Incorrect(f"{NO_BUNDLE} (it is not a gzip file)") from error
                raise BundleDamaged(f"the bundle cannot be unpacked: {error}") from error
            if not line:
                return
            unpacked += len(line)
            budget.check_unpacked(unpacked)
            yield line
