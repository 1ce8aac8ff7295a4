"""The compact form of a plain context: the same four sections in fewer tokens. Pure.

    ids       shortened to the beginning that no earlier object of the pool has
    pool      one line per file, the newest ``POOL_LINES_MAX`` at most; before them, how many there
              are besides, and how to list them. Tool calls have their references in the chat
    active    an output that is the text of an active file refers to that file

    [824 older files are known: list_objects lists them]
    id=f5c4b0 path=/src/a.py char_count=812

    user: Read it.
    toolcall_ref id=toolu_01T1x1 tool=read status=ok

    ACTIVE_CONTENT id=f5c4b0 path=/src/a.py
    …
    ACTIVE_CONTENT id=toolu_01T1x1
    [the text of f5c4b0 /src/a.py]

It is a function of the plain context, so that a turn record of the plain form proves it, too. The
context is given without its secrets, whose positions the record has.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Context,
    Pool,
    PoolEntry,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.context.lines import active_heading, escaped
from ctxmgr.core.objects.answers import AnswerCall, AnswerPart
from ctxmgr.core.objects.hashes import is_hash

COMPACT_RENDERER: Final = "compact/3"
"""Identifies the rendered bytes and their record: any change of either changes it."""

COMPACT_RENDERERS: Final = frozenset({"compact/1", "compact/2", COMPACT_RENDERER})
"""Those whose prompts can be rebuilt. Prompts of the first one were not masked; records of the
second one list the masks of all turns, those of the third what differs from the record before."""

HASH_LENGTH_MIN: Final = 6
"""Of a shortened hash: among 1,000 files, one in 30 sessions has two that begin alike."""

ID_LENGTH_MIN: Final = 12
"""Of any other shortened id: after a prefix such as ``toolu_``, as many characters."""

POOL_LINES_MAX: Final = 200
"""Lines of the pool: some 6,000 tokens."""

POOL_LINES_STEP: Final = 100
"""Lines that leave the pool together, so that its beginning does not change with each new file."""

LIST_TOOL: Final = "list_objects"
"""The tool that lists what the pool leaves out."""

_FILE_LINE: Final = re.compile(
    r"id=[0-9a-f]{64} type=file path=(?P<path>.*) file_type=.*"
    r" (?P<size>char_count=\d+|\[unread\]|\[deleted\]|\[binary\])\n"
)


def compact(context: Context) -> Context:
    """Return the compact form of a plain context."""
    shorts = short_ids(entry.object_id for entry in context.pool.entries)
    turns = tuple(_turn(turn, shorts) for turn in context.transcript.turns)
    return replace(
        context,
        pool=Pool(_capped(list(pool_entries(context, shorts)))),
        transcript=Transcript(turns),
        active=tuple(_active(context, shorts)),
    )


def pool_entries(context: Context, shorts: Mapping[str, str]) -> Iterator[PoolEntry]:
    """Yield the line of every file of the pool, and of calls that the chat does not refer to."""
    referred = {
        part.ref.object_id
        for turn in context.transcript.turns
        for part in turn.parts
        if isinstance(part, AnswerCall)
    }
    for entry in context.pool.entries:
        if entry.object_id not in referred:
            line = _line(entry, short=shorts[entry.object_id])
            yield PoolEntry(object_id=entry.object_id, line=line)


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return the shortest beginning of each id that no earlier one has.

    Ids that are added later do not change those that were given before.
    """
    whole = tuple(ids)
    taken = frozenset(whole)
    shorts: dict[str, str] = {}
    groups: dict[str, list[str]] = {}
    for object_id in whole:
        length = HASH_LENGTH_MIN if is_hash(object_id) else ID_LENGTH_MIN
        earlier = groups.setdefault(object_id[:HASH_LENGTH_MIN], [])
        at = bisect_left(earlier, object_id)
        for neighbour in earlier[max(0, at - 1) : at + 1]:  # the most similar ids
            length = max(length, _common(object_id, neighbour) + 1)
        earlier.insert(at, object_id)
        while length < len(object_id) and object_id[:length] in taken:
            length += 1  # somebody else's whole id
        shorts[object_id] = object_id[:length]
    return shorts


def _common(one: str, other: str) -> int:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length


def _capped(entries: list[PoolEntry]) -> Iterator[PoolEntry]:
    left_out = max(0, len(entries) - POOL_LINES_MAX)
    left_out = -(-left_out // POOL_LINES_STEP) * POOL_LINES_STEP
    if left_out:
        what = "1 older object is" if left_out == 1 else f"{left_out:,} older objects are"
        first = entries[left_out]
        note = f"[{what} known: {LIST_TOOL} lists them]\n"
        yield PoolEntry(object_id=first.object_id, line=note + first.line)
        left_out += 1
    yield from entries[left_out:]


def _line(entry: PoolEntry, *, short: str) -> str:
    file = _FILE_LINE.fullmatch(entry.line)
    if file is not None:
        return f"id={short} path={file['path']} {file['size']}\n"
    return entry.line.replace(escaped(entry.object_id), escaped(short), 1)


def _turn(turn: ShownTurn, shorts: Mapping[str, str]) -> ShownTurn:
    return ShownTurn(turn.user, tuple(_part(part, shorts) for part in turn.parts))


def _part(part: AnswerPart, shorts: Mapping[str, str]) -> AnswerPart:
    if not isinstance(part, AnswerCall) or part.ref.object_id not in shorts:
        return part
    return replace(part, ref=replace(part.ref, object_id=shorts[part.ref.object_id]))


def _active(context: Context, shorts: Mapping[str, str]) -> Iterator[ActiveBlock]:
    """Yield the active objects; an output that equals an active file refers to it."""
    paths = {
        entry.object_id: file["path"]
        for entry in context.pool.entries
        if (file := _FILE_LINE.fullmatch(entry.line)) is not None
    }
    files = {block.content: block.object_id for block in context.active if block.object_id in paths}
    for block in context.active:
        object_id, content = block.object_id, block.content
        if object_id in paths:
            heading = f"ACTIVE_CONTENT id={shorts[object_id]} path={paths[object_id]}\n"
        else:
            heading = active_heading(shorts[object_id])
            same = files.get(content) if content.strip() else None
            if same is not None:
                content = f"[the text of {shorts[same]} {paths[same]}]"
        yield ActiveBlock(object_id, content, heading)
