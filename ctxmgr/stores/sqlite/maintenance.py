"""Maintenance of a store's file: backup, verify, vacuum. Touches the file.

``verify`` lists faults and does not raise for them. It reads one snapshot of the store, however
long it takes. Lists that versions share are read and brought into canonical form once: each version
of a growing chat then costs the hash of its bytes, and nothing else that grows with the chat.
"""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import orjson

from ctxmgr.core.objects.codec import verify_document
from ctxmgr.core.objects.hashes import NOT_METADATA
from ctxmgr.core.private_files import make_private_file
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.documents import ID, Document
from ctxmgr.errors import CtxmgrError, Incorrect, Unavailable
from ctxmgr.stores.sqlite.body_format import (
    FORMAT,
    PLAIN,
    SPACE,
    cell_numbers,
    join_fields,
    loads,
)
from ctxmgr.stores.sqlite.body_reader import BodyReader
from ctxmgr.stores.sqlite.connection import SqliteAddress, connect, statements, translate_error
from ctxmgr.stores.sqlite.fields import Fields, load, sort_key, text_order
from ctxmgr.stores.sqlite.reader import WID_MAX, key_text

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the amount done and the total, in one of the store's threads."""

FAULTS_MAX: Final = 1_000
"""Faults that are listed; a file with more cannot be repaired anyway."""

LISTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Canonical JSON of lists that is kept in memory; the lists used longest ago are read again."""

BACKUP_PAGES: Final = 256
"""Pages copied between two reports of progress: 4 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was checked, and what is wrong with it."""

    transactions: int
    versions: int
    pieces: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    path: str
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuumed:
    bytes_before: int
    bytes_after: int


def backup(address: SqliteAddress, path: Path, progress: Progress | None) -> Backup:
    """Copy the current state of the store into a new file, completely or not at all.

    The copy gets a new store name, so that tokens of the original do not match in it: after it is
    restored, sequences that only the original had are used again.
    """
    if path.exists():
        raise Incorrect(f"{path}: the file exists; name a new file")
    if not path.parent.is_dir():
        raise Incorrect(f"{path}: the folder does not exist; create it first")
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    source = connect(address, durability="full", writes=False)
    try:
        _copy(source, partial, progress)
        partial.rename(path)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
    except apsw.FullError as error:
        raise translate_error(error, str(path)) from error
    finally:
        source.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{partial}{suffix}").unlink(missing_ok=True)
    return Backup(path=str(path), file_bytes=path.stat().st_size)


def vacuum(address: SqliteAddress) -> Vacuumed:
    """Rewrite the file without unused space. Writers wait, and fail if it takes long."""
    connection = connect(address, durability="full", writes=True)
    try:
        before = _file_bytes(connection)
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return Vacuumed(bytes_before=before, bytes_after=_file_bytes(connection))
    finally:
        connection.close()


def verify(address: SqliteAddress, progress: Progress | None) -> Verification:
    """Check the file's structure, every hash, and that every index agrees with the documents."""
    connection = connect(address, durability="full", writes=False)
    try:
        return _Verifier(connection, address.url, progress).run()
    finally:
        connection.close()


def _copy(source: apsw.Connection, partial: Path, progress: Progress | None) -> None:
    make_private_file(partial)
    target = apsw.Connection(str(partial))
    try:
        # A read takes the snapshot; without one, every write would restart the backup.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM tx").fetchall()
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(BACKUP_PAGES)
                if progress is not None:
                    progress(copying.page_count - copying.remaining, copying.page_count)
        source.execute("COMMIT")
        target.execute(statements()["rename_store"])
    finally:
        target.close()
    with partial.open("rb") as copied:
        os.fsync(copied.fileno())


def _file_bytes(connection: apsw.Connection) -> int:
    pages: int = connection.execute("PRAGMA page_count").get
    size: int = connection.execute("PRAGMA page_size").get
    return pages * size


@dataclass(slots=True)
class _Verifier:
    connection: apsw.Connection
    url: str
    progress: Progress | None
    faults: list[str] = field(default_factory=list)
    fields: Fields = field(default_factory=Fields)
    bodies: BodyReader = field(init=False)
    lists: "CanonicalLists" = field(init=False)

    def run(self) -> Verification:
        self.bodies = BodyReader(self.connection.execute, url=self.url)
        self.lists = CanonicalLists(self.bodies)
        self.connection.execute("BEGIN")
        counts = {"transactions": 0, "versions": 0, "pieces": 0}
        with self._recording_faults("the file"):
            results = (str(row[0]) for row in self.connection.execute("PRAGMA integrity_check"))
            self.faults += [f"the file: {result}" for result in results if result != "ok"]
        with self._recording_faults("transactions"):
            counts["transactions"] = self._transactions()
        with self._recording_faults("pieces"):
            counts["pieces"] = self._pieces()
        with self._recording_faults("versions"):
            counts["versions"] = self._versions()
        with self._recording_faults("heads"):
            self._heads()
        return Verification(**counts, faults=tuple(self.faults[:FAULTS_MAX]))

    @contextmanager
    def _recording_faults(self, what: str) -> Iterator[None]:
        """Record an error that ends a step as a fault, and continue with the next step."""
        try:
            yield
        except apsw.Error as error:
            self.faults.append(f"{what}: {translate_error(error, self.url)}")
        except CtxmgrError as error:
            self.faults.append(f"{what}: {error}")
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self.faults.append(f"{what}: unreadable ({error!r})")

    def _rows(self, name: str) -> Iterator[Any]:
        yield from self.connection.execute(statements()[name])

    def _transactions(self) -> int:
        self.faults += [
            f"transaction {seq}: its system time is before that of the previous one"
            for (seq,) in self._rows("disordered_tx")
        ]
        self.faults += [
            f"{key_text(text) if text else nid}: the entry at {vt} has no document"
            for nid, vt, text in self._rows("lost_entries")
        ]
        count: int = self.connection.execute(statements()["count_tx"]).get
        return count

    def _pieces(self) -> int:
        count = 0
        for pid, address, body in self._rows("all_pieces"):
            count += 1
            if hashlib.sha256(body).digest() != address:
                self.faults.append(f"piece {pid}: its bytes do not match its hash")
        return count

    def _versions(self) -> int:
        self.fields = load(self.connection)
        total: int = self.connection.execute(statements()["count_puts"]).get
        done = 0
        for wid, nid, text, fmt, body in self._rows("all_puts"):
            with self._recording_faults(f"{key_text(text)}: write {wid}"):
                self._version(nid, key_text(text), fmt, body)
            done += 1
            if self.progress is not None:
                self.progress(done, total)
        return done

    def _version(self, nid: int, object_id: str, fmt: int, body: bytes) -> None:
        document, metadata = self._read(fmt, body, object_id)
        if document.get(ID) != object_id:
            self.faults.append(f"{object_id}: its document has the id {document.get(ID)!r:.80}")
            return
        verify_document(document, metadata=metadata)
        place = text_order(object_id)
        for fid, value in self.fields.values(document):
            indexed = (fid, sort_key(value), place)
            if self.connection.execute(statements()["has_ever"], indexed).get != nid:
                self.faults.append(
                    f"{object_id}: the index of all versions lacks {value!r:.80} (field {fid})"
                )

    def _read(self, fmt: int, body: bytes, object_id: str) -> tuple[Document, str | None]:
        """Return the document; if it has shared lists, without them but with its metadata_hash."""
        if fmt != FORMAT or body[0] in {PLAIN, SPACE}:
            return self.bodies.document(fmt, body, object_id), None
        exact, cells = self.bodies.cells(fmt, body, object_id)
        lists = {name: cell for name, cell in cells if cell[:1] == b"L"}
        if exact or not lists:
            return self.bodies.document(fmt, body, object_id), None
        rest = [
            (name, self.bodies.raw(cell, object_id)) for name, cell in cells if name not in lists
        ]
        document: Document = loads(join_fields(rest, exact=False))
        state, separator = hashlib.sha256(), b"{"
        for name in sorted({*document, *lists} - NOT_METADATA):
            state.update(separator + canonical(name) + b":")
            if name in lists:
                lid, length = cell_numbers(lists[name])
                self.lists.hash_into(state, lid=lid, length=length, object_id=object_id)
            else:
                state.update(canonical(document[name]))
            separator = b","
        state.update(b"}")
        return document, state.hexdigest()

    def _heads(self) -> None:
        values = 0
        for nid, text, since, until, wid, fields in self._rows("all_heads"):
            with self._recording_faults(f"{key_text(text)}: head"):
                values += self._head(nid, key_text(text), (since, until, wid), fields)
        indexed: int = self.connection.execute(statements()["count_present"]).get
        if indexed != values:
            self.faults.append(f"index: {indexed} values where the heads have {values}")

    def _head(self, nid: int, object_id: str, head: tuple[Any, ...], fields: str) -> int:
        """Check a head against the timeline and the index; return how many values it has."""
        since, until, wid = head
        row = self.connection.execute(statements()["visible"], (nid, since, WID_MAX)).get
        visible = None if row is None or row[2] else row[1]
        next_start = self.connection.execute(statements()["next_start"], (nid, since)).get
        if wid != visible or until != next_start:
            self.faults.append(f"{object_id}: its head does not match its timeline")
        values = orjson.loads(fields)
        place = text_order(object_id)
        for fid, value in values:
            indexed = (fid, sort_key(value), place)
            if self.connection.execute(statements()["has_present"], indexed).get != nid:
                self.faults.append(
                    f"{object_id}: the index of visible versions lacks {value!r:.80} (field {fid})"
                )
        return len(values)


class CanonicalLists:
    """The canonical JSON of shared lists, each read once and extended as its versions grow."""

    def __init__(self, bodies: BodyReader) -> None:
        self._bodies = bodies
        self._lists: OrderedDict[int, tuple[bytearray, list[int]]] = OrderedDict()
        """By list: the items with a comma after each, and where each ends."""
        self._size = 0

    def hash_into(self, state: "hashlib._Hash", *, lid: int, length: int, object_id: str) -> None:
        """Add the first items of a list to a hash, as canonical JSON."""
        text, ends = self._lists.setdefault(lid, (bytearray(), []))
        self._lists.move_to_end(lid)
        if len(ends) < length:
            before = len(text)
            for raw in self._bodies.items(lid, length, object_id, start=len(ends)):
                text += canonical(orjson.loads(raw))
                ends.append(len(text))
                text += b","
            self._size += len(text) - before
        state.update(b"[")
        if length:
            with memoryview(text) as view:
                state.update(view[: ends[length - 1]])
        state.update(b"]")
        while self._size > LISTS_BYTES_MAX and len(self._lists) > 1:
            _, (dropped, _) = self._lists.popitem(last=False)
            self._size -= len(dropped)
