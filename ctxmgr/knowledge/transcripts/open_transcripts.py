"""The transcripts of a raw root, and how far each is written. Touches files and ``capture.db``.

    RAW/
    ├── raw/conversations/YYYY/MM/DD/HHMM-ses_….md the transcripts
    ├── SHA256SUMS                                 the hash of every closed one, for `sha256sum -c`
    └── .ctxmgr/capture.db                         how far open ones are written, and which events

Text is appended and synced to its file before the transaction commits that acknowledges it. After a
crash the file may be longer than what was acknowledged: the rest is cut off, and its event is
delivered again. Nothing is lost and nothing is there twice, and several processes may write.

A closed transcript is never opened again for writing. If the database is lost, it is restored from
the heads of closed transcripts, and events that are in them are not recorded again; open ones are
set aside and written anew from their store.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from ctxmgr.core.events.events import EventOrigin
from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.notes.layout import HASHES
from ctxmgr.knowledge.transcripts.transcript import (
    SLUG_MESSAGES,
    UNTITLED,
    KnowledgeLine,
    Role,
    ToolLine,
    TranscriptHead,
    TranscriptTurn,
    hashtags,
    parse_head,
    render_opening,
    render_turn,
    session_name,
    slug_of,
    title_of_messages,
    transcript_path,
)
from ctxmgr.knowledge.transcripts.turns import CapturedCall
from ctxmgr.stores.layer_file import LayerFile, LayerLayout, SqlConnection, rows_of

CONVERSATIONS: Final = "raw/conversations"
STATE_FOLDER: Final = ".ctxmgr"

HEAD_BYTES_MAX: Final = 1_000_000
"""Of a file, read to restore the database from its head."""
MESSAGE_CHARS: Final = 2_000
"""Of each of the first messages that is kept for slug and title."""
TAGS_MAX: Final = 10
CHANGES_MAX: Final = 200
"""Changed notes that a head lists; the turns have all."""
WORDLESS: Final = "no-messages"
"""The slug of a closed transcript without words."""
RECOVERED: Final = "recovered"
"""The folder beside the database for open transcripts that it no longer knows."""
SAME_PATH_MAX: Final = 100
"""Transcripts of one minute, session and slug."""

LAYOUT: Final = LayerLayout(
    application_id=0x63747874,  # "ctxt"
    migrations=Path(__file__).parent / "sql",
    what="database of captured transcripts",
)

_log = logging.getLogger(__name__)


class SessionKey(NamedTuple):
    """A session, and the store that it belongs to."""

    store: str
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedTranscript:
    """A transcript that is complete."""

    path: str
    """Below the raw root."""
    session: str
    slug: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Turns to append, and what they add to the head."""

    turns: tuple[TranscriptTurn, ...]
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    calls: tuple[str, ...] = ()
    """Tool calls that were held for these turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    number: int
    store: str
    session: str
    part: int
    status: str
    path: str
    working_path: str
    opening: int
    bytes: int
    head: str
    messages: str
    sequence: int
    position: int
    touched: Instant
    sha256: str | None

    @classmethod
    def of(cls, values: Iterable[Any]) -> Self:
        return cls(**dict(zip(_COLUMNS, values, strict=True)))


_COLUMNS: Final = tuple(_Row.__annotations__)
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM transcripts"  # noqa: S608 (our own names)


class OpenTranscripts:
    """The transcripts below a raw root. Thread-safe."""

    def __init__(self, raw: Path, state: LayerFile) -> None:
        self.raw = raw
        self._state = state

    @classmethod
    def open(cls, raw: Path) -> Self:
        """Open a raw root, which is created if there is none."""
        folder = raw / STATE_FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
        opened = cls(raw, LayerFile.open(folder / "capture.db", LAYOUT))
        opened._restore()
        opened._remove_working_copies()
        return opened

    def close(self) -> None:
        self._state.close()

    def last_event(self, store: str) -> tuple[EventOrigin, Instant] | None:
        """Return the last event of a store that was recorded, and when it happened."""
        with self._state.reading() as connection:
            found = rows_of(
                connection,
                "SELECT sequence, position, system_time FROM positions WHERE store = ?",
                [store],
            )
        return (EventOrigin(store, found[0][0], found[0][1], 0), found[0][2]) if found else None

    def begin(
        self,
        key: SessionKey,
        at: Instant,
        *,
        model: str | None = None,
        channel: str,
        origin: EventOrigin | None = None,
    ) -> str:
        """Open a transcript, unless the session has an open one; return its path."""
        with self._state.reading() as connection:
            last = _last_part(connection, key)
            if origin is not None and last and _is_recorded(connection, key, origin):
                return last.path
        row = self._reserve(key, at, model=model, channel=channel)
        with self._recording(key, at, origin) as connection:
            if connection is not None:
                self._append(connection, self._open_row(connection, key) or row, "", at, origin)
        return row.working_path

    def add(
        self,
        key: SessionKey,
        said: Said,
        at: Instant,
        *,
        channel: str,
        origin: EventOrigin | None = None,
    ) -> None:
        """Append turns to the open transcript, or to a new part if the last one is closed."""
        with self._state.reading() as connection:
            if origin is not None and _is_recorded(connection, key, origin):
                return
        self._reserve(key, at, model=said.model, channel=channel)
        with self._recording(key, at, origin) as connection:
            row = None if connection is None else self._open_row(connection, key)
            if connection is None or row is None:
                return
            turns = [*_left_calls(connection, key, but=said.calls), *said.turns]
            row = _noted(row, said, turns)
            self._append(connection, row, "".join(map(render_turn, turns)), at, origin)
            connection.execute(
                "DELETE FROM calls WHERE store = ? AND session = ?", (key.store, key.session)
            )

    def hold(
        self,
        key: SessionKey,
        object_id: str,
        call: CapturedCall,
        at: Instant,
        *,
        origin: EventOrigin,
    ) -> None:
        """Keep a tool call until its turn is finished: a turn comes after its calls."""
        with self._recording(key, at, origin) as connection:
            if connection is not None:
                connection.execute(
                    "INSERT OR IGNORE INTO calls"
                    " (store, session, object_id, at, call, sequence, position)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (*key, object_id, at, _call_json(call), origin.sequence, origin.position),
                )

    def held(self, key: SessionKey) -> dict[str, CapturedCall]:
        """Return the tool calls that wait for their turn."""
        with self._state.reading() as connection:
            return {
                object_id: _read_call(call) for object_id, _, call in _held_rows(connection, key)
            }

    def end(
        self,
        key: SessionKey,
        at: Instant,
        *,
        tags: tuple[str, ...] = (),
        origin: EventOrigin | None = None,
    ) -> ClosedTranscript | None:
        """Complete the head, make the file read-only and record its hash; None if none is open."""
        with self._state.writing() as connection:
            row = self._open_row(connection, key)
            if row is None or (origin is not None and _is_recorded(connection, key, origin)):
                return None
            if left := _left_calls(connection, key, but=()):
                row = _noted(row, Said(turns=()), left)
                row = self._append(
                    connection, row, "".join(map(render_turn, left)), row.touched, None
                )
                connection.execute(
                    "DELETE FROM calls WHERE store = ? AND session = ?", (key.store, key.session)
                )
            row = self._aim(connection, row)
        closed = None
        with self._recording(key, at, origin) as connection:
            row = None if connection is None else self._open_row(connection, key)
            if connection is not None and row is not None:
                closed = self._finalise(connection, row, at, tags=tags, origin=origin)
        if closed is not None:
            self._remove_working_copies()
        return closed

    def idle(self, *, before: Instant) -> list[tuple[SessionKey, Instant]]:
        """Return the sessions whose open transcripts nothing was added to since ``before``."""
        with self._state.reading() as connection:
            found = rows_of(
                connection,
                "SELECT store, session, touched FROM transcripts"
                " WHERE status = 'open' AND touched < ? ORDER BY number",
                [before],
            )
        return [(SessionKey(store, session), touched) for store, session, touched in found]

    def unfinished(self) -> list[ClosedTranscript]:
        """Return closed transcripts that were not committed and extracted yet, oldest first."""
        with self._state.reading() as connection:
            found = rows_of(connection, f"{_SELECT} WHERE status = 'closed' ORDER BY number")
        return [_closed(_Row.of(values)) for values in found]

    def finish(self, path: str) -> None:
        """Record that everything was done with a closed transcript."""
        with self._state.writing() as connection:
            connection.execute(
                "UPDATE transcripts SET status = 'finished' WHERE path = ? AND status = 'closed'",
                (path,),
            )

    @contextmanager
    def _recording(
        self, key: SessionKey, at: Instant, origin: EventOrigin | None
    ) -> Iterator[SqlConnection | None]:
        """A transaction that also records an event; yields None if it was recorded before."""
        with self._state.writing() as connection:
            known = origin is not None and _is_recorded(connection, key, origin)
            yield None if known else connection
            if origin is not None:
                connection.execute(
                    "INSERT INTO positions VALUES (?, ?, ?, ?) ON CONFLICT (store) DO UPDATE SET"
                    " sequence = excluded.sequence, position = excluded.position,"
                    " system_time = excluded.system_time"
                    " WHERE (excluded.sequence, excluded.position) > (sequence, position)",
                    (origin.store, origin.sequence, origin.position, at),
                )

    def _open_row(self, connection: SqlConnection, key: SessionKey) -> _Row | None:
        found = rows_of(
            connection, f"{_SELECT} WHERE store = ? AND session = ? AND status = 'open'", key
        )
        return _Row.of(found[0]) if found else None

    def _reserve(self, key: SessionKey, at: Instant, *, model: str | None, channel: str) -> _Row:
        """Return the open transcript of a session; reserves its path before any file is created."""
        with self._state.writing() as connection:
            row = self._open_row(connection, key)
            if row is not None and (row.bytes == 0 or self._is_whole(row)):
                return row
            if row is not None:
                _log.warning(
                    "%s is shorter than what was written to it; the session goes on in another"
                    " part, and the store still has what was lost",
                    self.raw / row.working_path,
                )
                _set(connection, replace(row, status="finished"))
            last = _last_part(connection, key)
            head = TranscriptHead(
                session_id=session_name(key.session),
                session=key.session,
                started=at,
                model=model,
                channel=channel,
                part=last.part + 1 if last else 1,
                continues=last.path if last else None,
                store=key.store or None,
            )
            path = self._free_path(connection, head, slug=UNTITLED)
            row = _Row(
                number=0,
                store=key.store,
                session=key.session,
                part=head.part,
                status="open",
                path=path,
                working_path=path,
                opening=0,
                bytes=0,
                head=_head_json(head),
                messages="[]",
                sequence=-1,
                position=-1,
                touched=at,
                sha256=None,
            )
            _insert(connection, row)
            return self._open_row(connection, key) or row

    def _is_whole(self, row: _Row) -> bool:
        file = self.raw / row.working_path
        return file.is_file() and not file.is_symlink() and file.stat().st_size >= row.bytes

    def _free_path(self, connection: SqlConnection, head: TranscriptHead, *, slug: str) -> str:
        for number in range(1, SAME_PATH_MAX):
            path = transcript_path(head, slug=slug if number == 1 else f"{slug}-{number}")
            used = rows_of(
                connection,
                "SELECT 1 FROM transcripts WHERE path = ? OR working_path = ?",
                [path, path],
            )
            if not used and not (self.raw / path).exists():
                return path
        raise Incorrect(f"{head.session!r:.80} has {SAME_PATH_MAX} transcripts in one minute")

    def _append(
        self,
        connection: SqlConnection,
        row: _Row,
        text: str,
        at: Instant,
        origin: EventOrigin | None,
    ) -> _Row:
        opening = row.opening
        data = text.encode()
        if row.bytes == 0:
            first = render_opening(_read_head(row.head), title_of_messages(())).encode()
            opening, data = len(first), first + data
        size = _append_synced(self.raw / row.working_path, data, after=row.bytes)
        row = replace(row, opening=opening, bytes=size, touched=max(at, row.touched))
        if origin is not None:
            row = replace(row, sequence=origin.sequence, position=origin.position)
        _set(connection, row)
        return row

    def _aim(self, connection: SqlConnection, row: _Row) -> _Row:
        """Reserve the path of the closed file, so that a crash leaves no second copy."""
        if row.path == row.working_path:
            slug = slug_of(json.loads(row.messages))
            # Never the path of the open file: a crash must leave that as it is.
            slug = WORDLESS if slug == UNTITLED else slug
            path = self._free_path(connection, _read_head(row.head), slug=slug)
            row = replace(row, path=path)
            _set(connection, row)
        return row

    def _finalise(
        self,
        connection: SqlConnection,
        row: _Row,
        at: Instant,
        *,
        tags: tuple[str, ...],
        origin: EventOrigin | None,
    ) -> ClosedTranscript:
        if row.bytes == 0:
            row = self._append(connection, row, "", at, None)
        if origin is not None:
            row = replace(row, sequence=origin.sequence, position=origin.position)
        messages = json.loads(row.messages)
        head = _read_head(row.head)
        title = title_of_messages(messages)
        head = replace(
            head,
            ended=max(at, head.started),
            topic=title if messages else None,
            tags=tuple(dict.fromkeys([*head.tags, *tags]))[:TAGS_MAX],
            last_event=f"{row.sequence}.{row.position}" if row.sequence >= 0 else None,
        )
        written = (self.raw / row.working_path).read_bytes()[row.opening : row.bytes]
        data = render_opening(head, title).encode() + written
        _write_read_only(self.raw / row.path, data)
        digest = hashlib.sha256(data).hexdigest()
        self._record_hash(row.path, digest)
        row = replace(row, status="closed", head=_head_json(head), sha256=digest, touched=at)
        _set(connection, row)
        return _closed(row)

    def _record_hash(self, path: str, digest: str) -> None:
        hashes = self.raw / HASHES
        line = f"{digest}  {path}\n"
        known = hashes.read_text(encoding="utf-8") if hashes.exists() else ""
        if line not in known:
            _append_synced(hashes, line.encode(), after=len(known.encode()))

    def _remove_working_copies(self) -> None:
        """Delete the open files of closed transcripts: their content is in the closed file."""
        with self._state.reading() as connection:
            found = rows_of(
                connection,
                "SELECT working_path, path FROM transcripts"
                " WHERE status != 'open' AND working_path != path AND sha256 IS NOT NULL"
                " ORDER BY number DESC LIMIT 1000",
            )
        for working, path in found:
            if (self.raw / path).exists():
                (self.raw / working).unlink(missing_ok=True)

    def _restore(self) -> None:
        """Learn from the heads of closed transcripts what an empty database does not know."""
        with self._state.writing() as connection:
            if rows_of(connection, "SELECT 1 FROM transcripts LIMIT 1"):
                return
            for file in sorted((self.raw / CONVERSATIONS).glob("*/*/*/*.md")):
                path = file.relative_to(self.raw).as_posix()
                try:
                    head = parse_head(_beginning(file), path=path)
                except (Incorrect, UnicodeDecodeError) as error:
                    _log.warning("%s is not a transcript: %s", path, error)
                    continue
                if head.ended is not None:
                    _restore_row(connection, head, path, file)
                elif head.store:
                    self._set_aside(file)

    def _set_aside(self, file: Path) -> None:
        """Keep an open transcript elsewhere: its store has every event, and it is written again."""
        folder = self.raw / STATE_FOLDER / RECOVERED
        folder.mkdir(mode=0o700, exist_ok=True)
        _log.warning("%s was open when its database was lost; it is kept in %s", file.name, folder)
        file.replace(folder / file.name)


def verify_hashes(raw: Path) -> Iterator[str]:
    """Yield which of the closed transcripts whose hash was recorded are missing or altered."""
    hashes = raw / HASHES
    recorded = hashes.read_text(encoding="utf-8").splitlines() if hashes.exists() else []
    listed = {path: digest for digest, _, path in (line.partition("  ") for line in recorded)}
    for path, digest in listed.items():
        file = raw / path
        if not file.is_file():
            yield f"{path} is missing"
        elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            yield f"{path} was altered after it was closed"


def _noted(row: _Row, said: Said, turns: list[TranscriptTurn]) -> _Row:
    """Return the row with what the turns add to head and title."""
    head = _read_head(row.head)
    messages: list[str] = json.loads(row.messages)
    tags = list(head.tags)
    changes = list(head.knowledge_changes)
    for turn in turns:
        if turn.text and len(messages) < SLUG_MESSAGES:
            messages.append(turn.text[:MESSAGE_CHARS])
        if turn.role is Role.USER:
            tags += hashtags(turn.text)
        changes += [block for block in turn.blocks if isinstance(block, KnowledgeLine)]
    head = replace(
        head,
        model=said.model or head.model,
        tokens_in=head.tokens_in + said.tokens_in,
        tokens_out=head.tokens_out + said.tokens_out,
        tags=tuple(dict.fromkeys(tags))[:TAGS_MAX],
        knowledge_changes=tuple(dict.fromkeys(changes))[:CHANGES_MAX],
    )
    return replace(row, head=_head_json(head), messages=json.dumps(messages))


def _is_recorded(connection: SqlConnection, key: SessionKey, origin: EventOrigin) -> bool:
    """Whether the event is in a transcript of its session, or held for it."""
    found = rows_of(
        connection,
        "SELECT sequence, position FROM transcripts WHERE store = ?1 AND session = ?2"
        " UNION ALL SELECT sequence, position FROM calls WHERE store = ?1 AND session = ?2"
        " ORDER BY 1 DESC, 2 DESC LIMIT 1",
        key,
    )
    return bool(found) and tuple(found[0]) >= (origin.sequence, origin.position)


def _last_part(connection: SqlConnection, key: SessionKey) -> _Row | None:
    found = rows_of(
        connection, f"{_SELECT} WHERE store = ? AND session = ? ORDER BY part DESC LIMIT 1", key
    )
    return _Row.of(found[0]) if found else None


def _held_rows(connection: SqlConnection, key: SessionKey) -> list[tuple[Any, ...]]:
    return rows_of(
        connection,
        "SELECT object_id, at, call FROM calls WHERE store = ? AND session = ? ORDER BY number",
        key,
    )


def _left_calls(
    connection: SqlConnection, key: SessionKey, *, but: tuple[str, ...]
) -> list[TranscriptTurn]:
    """Return the calls of turns that never finished, as turns of their own."""
    return [
        TranscriptTurn.of(at, Role.AGENT, [_read_call(call).line])
        for object_id, at, call in _held_rows(connection, key)
        if object_id not in but
    ]


def _insert(connection: SqlConnection, row: _Row) -> None:
    columns = [name for name in _COLUMNS if name != "number"]
    marks = ", ".join("?" for _ in columns)
    connection.execute(
        f"INSERT INTO transcripts ({', '.join(columns)}) VALUES ({marks})",  # noqa: S608
        tuple(getattr(row, name) for name in columns),
    )


def _set(connection: SqlConnection, row: _Row) -> None:
    changed = ", ".join(f"{name} = ?" for name in _COLUMNS if name != "number")
    connection.execute(
        f"UPDATE transcripts SET {changed} WHERE number = ?",  # noqa: S608
        (*(getattr(row, name) for name in _COLUMNS if name != "number"), row.number),
    )


def _restore_row(connection: SqlConnection, head: TranscriptHead, path: str, file: Path) -> None:
    sequence, _, position = (head.last_event or "-1.-1").partition(".")
    try:
        event = (int(sequence), int(position))
    except ValueError:
        event = (-1, -1)
    connection.execute(
        "INSERT OR IGNORE INTO transcripts (store, session, part, status, path, working_path,"
        " opening, bytes, head, messages, sequence, position, touched, sha256)"
        " VALUES (?, ?, ?, 'finished', ?, ?, 0, 0, ?, '[]', ?, ?, ?, ?)",
        (
            head.store or "",
            head.session,
            head.part,
            path,
            path,
            _head_json(head),
            *event,
            head.ended,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        ),
    )


def _closed(row: _Row) -> ClosedTranscript:
    slug = Path(row.path).stem.split("-", 2)[-1]
    return ClosedTranscript(path=row.path, session=row.session, slug=slug, sha256=row.sha256 or "")


def _head_json(head: TranscriptHead) -> str:
    values = {name: getattr(head, name) for name in TranscriptHead.__annotations__}
    values["knowledge_changes"] = [change.value() for change in head.knowledge_changes]
    return json.dumps(values)


def _read_head(text: str) -> TranscriptHead:
    values = json.loads(text)
    changes = tuple(
        KnowledgeLine(change["action"], change["path"], change["summary"])
        for change in values.pop("knowledge_changes")
    )
    return TranscriptHead(**values | {"tags": tuple(values["tags"]), "knowledge_changes": changes})


def _call_json(call: CapturedCall) -> str:
    line, change = call.line, call.change
    return json.dumps([line.tool, line.summary, line.result, change and change.value()])


def _read_call(text: str) -> CapturedCall:
    tool, summary, result, change = json.loads(text)
    return CapturedCall(
        ToolLine(tool, summary, result),
        KnowledgeLine(change["action"], change["path"], change["summary"]) if change else None,
    )


def _beginning(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(HEAD_BYTES_MAX).decode(errors="replace")


def _append_synced(file: Path, data: bytes, *, after: int) -> int:
    """Append data after the acknowledged bytes of a file; cut off what lies behind them."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = not file.exists()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o600)
    try:
        if os.fstat(descriptor).st_size > after:
            os.ftruncate(descriptor, after)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        _sync_folder(file.parent)
    return after + len(data)


def _write_read_only(file: Path, data: bytes) -> None:
    """Write a file that nobody may change: complete, or not at all."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
        os.fchmod(opened.fileno(), 0o444)
    temporary.replace(file)
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
