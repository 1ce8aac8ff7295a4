"""The format of memory files: what a project remembers, as one portable file. Pure.

    lines   {"counts": …, "ctxmgr_memory": 1, "project": …, "root": SHA-256 of everything else}
            documents of memories, usage, contradictions and links, in this order

Every line is canonical JSON. ``root`` covers the first line without itself, and all other lines.
A file comes from anywhere: its size, every field and every reference is checked before anything is
used. A file that is not a memory file at all, or is too large, is ``Incorrect``; one that was
altered, or that no export would write, is ``BundleDamaged``.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import BundleDamaged, Corrupt, Incorrect, NewerFormat
from ctxmgr.memory.records.contradiction import (
    CONTRADICTION,
    Contradiction,
    contradiction_id,
    read_contradiction,
    stored_contradiction,
)
from ctxmgr.memory.records.link import LINK, MemoryLink, read_link, stored_link
from ctxmgr.memory.records.memory import (
    MEMORY,
    NOTE_CHARS_MAX,
    OWNER_CHARS_MAX,
    Memory,
    read_memory,
    stored_memory,
)
from ctxmgr.memory.records.usage import USAGE, MemoryUsage, read_usage, stored_usage

FORMAT: Final = 1

FILE_BYTES_MAX: Final = 256 * 1024**2
"""Bytes of a file: all of it is held in memory."""
LINES_MAX: Final = 500_000
LINE_BYTES_MAX: Final = 2 * 1024**2
"""Bytes of one line: the longest body and its four lengths, in any script."""
LEVEL_CHARS_MAX: Final = 200_000
"""Characters of a memory at one of its lengths; the longest body has some 110,000."""
REASON_CHARS_MAX: Final = 5_000
"""Characters of the reason of a contradiction, which quotes both sides."""
ORIGIN_CHARS_MAX: Final = 5_000
COUNT_MAX: Final = 10**9

NO_MEMORY_FILE: Final = "not a memory file: pass a file that `ctxmgr memory export` has written"

_KINDS: Final = (MEMORY, USAGE, CONTRADICTION, LINK)
_HEADING: Final = "ctxmgr_memory"

Stored: TypeAlias = Memory | MemoryUsage | Contradiction | MemoryLink


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFile:
    """What a memory file holds. Nothing in it refers to a memory that is not in it."""

    project_id: str
    memories: tuple[Memory, ...]
    usage: tuple[MemoryUsage, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    links: tuple[MemoryLink, ...] = ()

    def to_bytes(self) -> tuple[bytes, str]:
        """Return the file and its root hash. Equal memories result in equal bytes."""
        lines = b"".join(canonical(document) + b"\n" for document in self._documents())
        heading = {_HEADING: FORMAT, "project": self.project_id, "counts": self._counts()}
        root = _root(heading, [lines])
        data = canonical({**heading, "root": root}) + b"\n" + lines
        if len(data) > FILE_BYTES_MAX:
            raise Incorrect(f"the file would have {len(data):,} bytes, at most {FILE_BYTES_MAX:,}")
        return data, root

    def _documents(self) -> Iterator[dict[str, Any]]:
        yield from map(stored_memory, sorted(self.memories, key=lambda memory: memory.id))
        yield from map(stored_usage, sorted(self.usage, key=lambda usage: usage.memory_id))
        pairs = sorted(self.contradictions, key=lambda pair: pair.id)
        yield from map(stored_contradiction, pairs)
        yield from map(stored_link, sorted(self.links, key=lambda link: link.id))

    def _counts(self) -> dict[str, int]:
        records = (self.memories, self.usage, self.contradictions, self.links)
        return dict(zip(_KINDS, map(len, records), strict=True))


def read_memory_file(data: bytes, *, now: Instant) -> tuple[MemoryFile, str]:
    """Check a file and return what it holds, and its root hash."""
    if len(data) > FILE_BYTES_MAX:
        raise Incorrect(f"{len(data):,} bytes are too many for a memory file ({FILE_BYTES_MAX:,})")
    lines = _lines(data)
    heading = _heading(next(lines, b""))
    root = heading.pop("root", None)
    if root != _root(heading, _lines(data, after=1)):
        raise BundleDamaged("the hash of the file does not match its lines: it was altered")
    found: dict[str, list[Stored]] = {kind: [] for kind in _KINDS}
    for number, line in enumerate(lines, start=2):
        kind, record = _record(line, number, now=now)
        found[kind].append(record)
    read = MemoryFile(
        project_id=_project(heading),
        memories=tuple(each for each in found[MEMORY] if isinstance(each, Memory)),
        usage=tuple(each for each in found[USAGE] if isinstance(each, MemoryUsage)),
        contradictions=tuple(
            each for each in found[CONTRADICTION] if isinstance(each, Contradiction)
        ),
        links=tuple(each for each in found[LINK] if isinstance(each, MemoryLink)),
    )
    _check_references(read)
    if read.to_bytes()[0] != data:
        raise BundleDamaged("the lines of the file are not those that an export writes")
    return read, str(root)


def _root(heading: dict[str, Any], lines: Iterable[bytes]) -> str:
    hashed = hashlib.sha256(canonical(heading) + b"\n")
    for line in lines:
        hashed.update(line)
    return hashed.hexdigest()


def _lines(data: bytes, *, after: int = 0) -> Iterator[bytes]:
    start = 0
    for number in range(1, LINES_MAX + 2):
        if start == len(data):
            return
        newline = data.find(b"\n", start, start + LINE_BYTES_MAX)
        end = len(data) if newline < 0 else newline + 1
        if end - start > LINE_BYTES_MAX:
            raise Incorrect(f"line {number} of the file has more than {LINE_BYTES_MAX:,} bytes")
        if number > after:
            yield data[start:end]
        start = end
    raise Incorrect(f"the file has more than {LINES_MAX:,} lines")


def _heading(line: bytes) -> dict[str, Any]:
    try:
        heading = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Incorrect(NO_MEMORY_FILE) from error
    if not isinstance(heading, dict) or type(heading.get(_HEADING)) is not int:
        raise Incorrect(NO_MEMORY_FILE)
    if heading[_HEADING] > FORMAT:
        raise NewerFormat("the memory file", heading[_HEADING], FORMAT)
    if heading[_HEADING] < FORMAT:
        raise Incorrect(f"there is no format {heading[_HEADING]} of memory files")
    return heading


def _project(heading: dict[str, Any]) -> str:
    project = heading.get("project")
    if not isinstance(project, str) or not 0 < len(project) <= OWNER_CHARS_MAX:
        raise BundleDamaged(f"the file does not name its project, but {project!r:.80}")
    return project


def _record(line: bytes, number: int, *, now: Instant) -> tuple[str, Stored]:
    """Read a line; what is read must be written as exactly this line."""
    try:
        document = json.loads(line)
        kind = document["type"]
        read, stored = _FORMS[kind]
        record = read(document)
        if canonical(stored(record)) + b"\n" != line:
            raise BundleDamaged("it is not what an export writes")
        _check(record, now=now)
    except (Corrupt, Incorrect) as error:
        raise BundleDamaged(f"line {number}: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BundleDamaged(f"line {number} is not readable: {error!r:.200}") from error
    return kind, record


_FORMS: Final[dict[str, tuple[Callable[[Any], Stored], Callable[[Any], dict[str, Any]]]]] = {
    MEMORY: (read_memory, stored_memory),
    USAGE: (read_usage, stored_usage),
    CONTRADICTION: (read_contradiction, stored_contradiction),
    LINK: (read_link, stored_link),
}


def _check(record: Stored, *, now: Instant) -> None:
    """Raise ``Incorrect`` for what no export writes, though it can be read."""
    times: tuple[Instant | None, ...]
    match record:
        case Memory():
            times = (record.created_at, record.valid_from, record.valid_to)
            _check_texts("a length", LEVEL_CHARS_MAX, *(record.levels.at(n) for n in range(4)))
            _check_texts("the reason of its end", NOTE_CHARS_MAX, record.ended_because)
            origin = record.origin
            names = (origin.session_id, origin.object_id, origin.object_hash)
            _check_texts("its origin", ORIGIN_CHARS_MAX, *names)
        case MemoryUsage():
            times = (record.last_accessed,)
            counters = (record.retrieval_count, record.citation_count, record.ignore_count)
            if not all(0 <= counter <= COUNT_MAX for counter in counters):
                raise Incorrect(f"counters are 0 to {COUNT_MAX:,}, not {counters!r:.80}")
        case Contradiction():
            times = (record.detected_at, record.resolved_at)
            _check_texts("the reason", REASON_CHARS_MAX, record.reason)
            _check_texts("the note", NOTE_CHARS_MAX, record.resolution_note)
            if (record.resolution is None) is not record.is_open:
                raise Incorrect("a contradiction is resolved at a time, or open")
        case MemoryLink():
            times = (record.detected_at,)
    for instant in times:
        if instant is not None and not 0 <= instant <= now:
            raise Incorrect(f"the instant {instant} lies before 1970 or in the future")


def _check_texts(name: str, chars_max: int, *texts: object) -> None:
    for text in texts:
        if text is not None and (not isinstance(text, str) or len(text) > chars_max):
            raise Incorrect(f"{name} is a text of at most {chars_max:,} characters")


def _check_references(read: MemoryFile) -> None:
    """Raise unless every reference is to a memory of the file, and nothing is there twice."""
    memories = {memory.id: memory for memory in read.memories}
    ids = [
        *(memory.id for memory in read.memories),
        *(f"{USAGE}:{usage.memory_id}" for usage in read.usage),
        *(pair.id for pair in read.contradictions),
        *(f"{LINK}:{link.id}" for link in read.links),
    ]
    if len(set(ids)) < len(ids):
        raise BundleDamaged("the file holds something twice")
    named = {
        *(each for memory in read.memories for each in memory.supersedes),
        *(memory.superseded_by for memory in read.memories if memory.superseded_by is not None),
        *(usage.memory_id for usage in read.usage),
        *(each for pair in read.contradictions for each in (pair.memory_a, pair.memory_b)),
        *(each for link in read.links for each in (link.memory_a, link.memory_b)),
    }
    if not named <= memories.keys():
        missing = min(named - memories.keys())
        raise BundleDamaged(f"the file refers to {missing!r:.80}, which is not in it")
    for pair in read.contradictions:
        if contradiction_id(memories[pair.memory_a], memories[pair.memory_b]) != pair.id:
            raise BundleDamaged(f"{pair.id!r:.80} is not the id of a contradiction of its memories")
