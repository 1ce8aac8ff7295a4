"""Looking after a store's file: backup, verify, vacuum. Touches the file.

``verify`` lists what it finds and raises nothing for it; what to do about a fault is the caller's
business. It sees one state of the store, however long it takes.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import orjson

from ctxmgr.core.documents import ID
from ctxmgr.core.objects import verify_document
from ctxmgr.errors import CtxmgrError, Incorrect, Unavailable
from ctxmgr.stores.sqlite_bodies import Bodies
from ctxmgr.stores.sqlite_fields import Fields, load, sort_key, text_order
from ctxmgr.stores.sqlite_file import Address, connect, translate
from ctxmgr.stores.sqlite_reader import key_text
from ctxmgr.stores.sqlite_statements import statements

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done and how much there is, in a thread of the store's."""

FAULTS_MAX: Final = 1_000
"""Faults that are listed; a file with more is lost anyway."""

BACKUP_PAGES: Final = 256
"""Pages copied between two words on progress: 4 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was looked at, and what is wrong with it."""

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


def backup(address: Address, path: Path, progress: Progress | None) -> Backup:
    """Copy the store as it is now into a new file; the file is there whole or not at all.

    The copy has a name of its own, so that after it was restored no token matches that was given
    for a version which is not in it: its sequence will be another's.
    """
    if path.exists():
        raise Incorrect(f"{path}: exists already; name a new file")
    if not path.parent.is_dir():
        raise Incorrect(f"{path}: its folder does not exist")
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    source = connect(address, durability="full", writes=False)
    try:
        _copy(source, partial, progress)
        partial.rename(path)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
    except apsw.FullError as error:
        raise translate(error, str(path)) from error
    finally:
        source.close()
        for left in (partial, *(Path(f"{partial}-{each}") for each in ("wal", "shm"))):
            left.unlink(missing_ok=True)
    return Backup(path=str(path), file_bytes=path.stat().st_size)


def vacuum(address: Address) -> Vacuumed:
    """Rewrite the file without unused space. Writers wait; if it takes long, they give up."""
    connection = connect(address, durability="full", writes=True)
    try:
        before = _file_bytes(connection)
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return Vacuumed(bytes_before=before, bytes_after=_file_bytes(connection))
    finally:
        connection.close()


def verify(address: Address, progress: Progress | None) -> Verification:
    """Check the file's structure, every hash, and that every index says what the documents say."""
    connection = connect(address, durability="full", writes=False)
    try:
        return _Check(connection, address.url, progress).run()
    finally:
        connection.close()


def _copy(source: apsw.Connection, partial: Path, progress: Progress | None) -> None:
    target = apsw.Connection(str(partial))
    try:
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
class _Check:
    connection: apsw.Connection
    url: str
    progress: Progress | None
    faults: list[str] = field(default_factory=list)
    fields: Fields = field(default_factory=Fields)
    bodies: Bodies = field(init=False)

    def run(self) -> Verification:
        self.bodies = Bodies(self.connection.execute, url=self.url)
        self.connection.execute("BEGIN")
        counts = {"transactions": 0, "versions": 0, "pieces": 0}
        with self._noting("the file"):
            self._structure()
        with self._noting("transactions"):
            counts["transactions"] = self._transactions()
        with self._noting("pieces"):
            counts["pieces"] = self._pieces()
        with self._noting("versions"):
            counts["versions"] = self._versions()
        with self._noting("heads"):
            self._heads()
        return Verification(**counts, faults=tuple(self.faults[:FAULTS_MAX]))

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """Turn what stops a step into a fault; the next step is still worth taking."""
        try:
            yield
        except apsw.Error as error:
            self.faults.append(f"{what}: {translate(error, self.url)}")
        except CtxmgrError as error:
            self.faults.append(f"{what}: {error}")
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self.faults.append(f"{what}: unreadable ({error!r})")

    def _rows(self, name: str) -> Iterator[Any]:
        yield from self.connection.execute(statements()[name])

    def _structure(self) -> None:
        found = (str(row[0]) for row in self.connection.execute("PRAGMA integrity_check"))
        self.faults += [f"the file: {each}" for each in found if each != "ok"]

    def _transactions(self) -> int:
        self.faults += [
            f"transaction {seq}: its instant is before that of the one before it"
            for (seq,) in self._rows("disordered_tx")
        ]
        self.faults += [
            f"{key_text(text) if text else nid}: entry at {vt} leads to no document"
            for nid, vt, text in self._rows("lost_entries")
        ]
        count: int = self.connection.execute(statements()["count_tx"]).get
        return count

    def _pieces(self) -> int:
        count = 0
        for pid, address, body in self._rows("all_pieces"):
            count += 1
            if hashlib.sha256(body).digest() != address:
                self.faults.append(f"piece {pid}: is not what its address says")
        return count

    def _versions(self) -> int:
        self.fields = load(self.connection)
        total: int = self.connection.execute(statements()["count_puts"]).get
        done = 0
        for wid, nid, text, form, body in self._rows("all_puts"):
            with self._noting(f"{key_text(text)}: write {wid}"):
                self._version(nid, key_text(text), form, body)
            done += 1
            if self.progress is not None:
                self.progress(done, total)
        return done

    def _version(self, nid: int, object_id: str, form: int, body: bytes) -> None:
        document = self.bodies.document(form, body, object_id)
        if document.get(ID) != object_id:
            self.faults.append(f"{object_id}: its document says {document.get(ID)!r:.80}")
            return
        verify_document(document)
        place = text_order(object_id)
        for fid, value in self.fields.values(document):
            key = sort_key(value)
            known = self.connection.execute(statements()["has_ever"], (fid, key, place)).get
            if known != nid:
                self.faults.append(f"{object_id}: cannot be found by {value!r:.80} (field {fid})")

    def _heads(self) -> None:
        shown = 0
        for nid, text, since, until, wid, stored in self._rows("all_heads"):
            with self._noting(f"{key_text(text)}: head"):
                shown += self._head(nid, key_text(text), (since, until, wid), stored)
        present: int = self.connection.execute(statements()["count_present"]).get
        if present != shown:
            self.faults.append(f"index: {present} values where the heads have {shown}")

    def _head(self, nid: int, object_id: str, head: tuple[Any, ...], stored: str) -> int:
        since, until, wid = head
        row = self.connection.execute(statements()["visible"], (nid, since, 2**63 - 1)).get
        right = None if row is None or row[2] else row[1]
        following = self.connection.execute(statements()["next_start"], (nid, since)).get
        if wid != right or until != following:
            self.faults.append(f"{object_id}: its head is not what its timeline says")
        values = orjson.loads(stored)
        place = text_order(object_id)
        for fid, value in values:
            key = sort_key(value)
            if self.connection.execute(statements()["has_present"], (fid, key, place)).get != nid:
                self.faults.append(f"{object_id}: is not found by {value!r:.80} (field {fid})")
        return len(values)
