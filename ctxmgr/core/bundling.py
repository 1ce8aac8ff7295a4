"""Sessions into bundles, which are gzip files, and back. Reads and writes a store.

Exported is all that the session's past needs: its own documents, every version of each object of
its index, and the same of the sessions it was forked from.

Importing writes what the store does not have yet, transaction by transaction in their order, each
version true from when it was: so it can be repeated after a crash, and a file that the store knows
better keeps its newer version. A session of that name with another past is refused.
"""

import gzip
import io
import zlib
from collections.abc import AsyncIterator
from typing import Final

from ctxmgr.core.bundle import (
    NO_BUNDLE,
    Bundle,
    BundledTransaction,
    BundledWrite,
    Packing,
    VersionHashes,
    Versions,
)
from ctxmgr.core.documents import ID, KIND
from ctxmgr.core.envelopes import (
    INFRASTRUCTURE_KINDS,
    chat_id,
    session_object_id,
    system_prompt_id,
    turn_id,
)
from ctxmgr.core.events import LIFECYCLE
from ctxmgr.core.lineages import FORK, lineage
from ctxmgr.core.store import Put, Store
from ctxmgr.errors import BundleDamaged, Incorrect, NotFound

BUNDLE_BYTES_MAX: Final = 1024**3
"""Of an unpacked bundle: it is read into memory, and a small file could unpack to any size."""

_GZIP: Final = b"\x1f\x8b"
"""The first bytes of every gzip file."""

HISTORY_PAGE: Final = 500
"""Versions read at once. Those of a long chat share their turns; a store ends a page that is too
large for memory."""


async def export_session(store: Store, session_id: str) -> tuple[bytes, str]:
    """Return a session's bundle and its root hash; ``NotFound`` if there is none."""
    packing = Packing()
    done: set[str] = set()
    for ancestor in await lineage(store, session_id):
        for object_id in await _object_ids(store, ancestor.session_id):
            if object_id not in done:
                done.add(object_id)
                await _pack(store, packing, object_id)
    data, root = packing.to_bytes(session_id)
    return gzip.compress(data, mtime=0), root


async def import_session(store: Store, data: bytes) -> str:
    """Store what a bundle holds; return the session's id.

    All of it is checked before the first write. ``Incorrect`` if it is no bundle, ``BundleDamaged``
    if it is not as it was exported.
    """
    bundle = Bundle.from_bytes(_unpacked(data))
    bundled, own = _bundled(bundle)
    there = {object_id: await _hashes(store, object_id) for object_id in bundled}
    _refuse_another_past({object_id: bundled[object_id] for object_id in own}, there)
    now = (await store.status()).system_time or 0
    for transaction in bundle.transactions_again():
        puts = [_put(each, now) for each in _missing(transaction, there)]
        if puts:
            await store.commit(puts)
    return bundle.session_id


def _put(write: BundledWrite, now: int) -> Put:
    past = write.valid_from < now  # a clock that ran ahead must not hide what comes next
    return Put(write.document, valid_from=write.valid_from if past else None, checked=True)


def _missing(transaction: BundledTransaction, there: dict[str, set[str]]) -> list[BundledWrite]:
    return [each for each in transaction.writes if each.hash not in there[each.document[ID]]]


def _bundled(bundle: Bundle) -> tuple[dict[str, set[str | None]], set[str]]:
    """Check a whole bundle; return the hashes it holds by id, and which ids are sessions' own."""
    hashes: dict[str, set[str | None]] = {}
    own: set[str] = set()
    for transaction in bundle.transactions():
        for each in transaction.writes:
            object_id = each.document[ID]
            hashes.setdefault(object_id, set()).add(each.hash)
            if each.document[KIND] in INFRASTRUCTURE_KINDS:
                own.add(object_id)
    return hashes, own


def _refuse_another_past(own: dict[str, set[str | None]], there: dict[str, set[str]]) -> None:
    """Only a session's own documents tell: files and tool calls are shared."""
    for object_id, hashes in own.items():
        if not there[object_id] <= hashes:
            raise Incorrect(f"this store has another {object_id}; it is not overwritten")


async def _pack(store: Store, packing: Packing, object_id: str) -> None:
    """Pack an object's versions as they are read; where some were backdated, in their order."""
    versions = Versions()
    async for sequence, write in _history(store, object_id):
        if not versions.follows(sequence):
            packing.add(sorted([each async for each in _history(store, object_id)], key=_order))
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
        *(f"{LIFECYCLE}:{session_id}", f"{FORK}:{session_id}"),
        *(turn_id(session_id, number=n) for n in turns),
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


async def _hashes(store: Store, object_id: str) -> set[str]:
    hashes = VersionHashes()
    return {hashes.next(write.document)[0] async for _, write in _history(store, object_id)}


def _order(entry: tuple[int, BundledWrite]) -> int:
    return entry[0]


def _unpacked(data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(BUNDLE_BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        if not data.startswith(_GZIP):
            raise Incorrect(f"{NO_BUNDLE} (it is no gzip file)") from error
        raise BundleDamaged(f"the bundle cannot be unpacked: {error}") from error
    if len(unpacked) > BUNDLE_BYTES_MAX:
        raise Incorrect(f"the bundle unpacks to more than {BUNDLE_BYTES_MAX:,} bytes")
    return unpacked
