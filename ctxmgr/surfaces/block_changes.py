"""What became of a prompt's blocks since the prompt before. Pure.

same      stood there, in this order
new       did not
changed   other text of the same object
moved     the same text, elsewhere
gone      stands there no more
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ctxmgr.core.assembly import Section
from ctxmgr.core.prompt_rows import CountedBlock, Prompt

SAME: Final = "same"
NEW: Final = "new"
CHANGED: Final = "changed"
MOVED: Final = "moved"
GONE: Final = "gone"


def compared(
    before: Prompt, now: Prompt
) -> tuple[list[tuple[CountedBlock, str]], list[CountedBlock]]:
    """Say of each block what became of it since the prompt before, and which blocks are gone."""
    blocks: list[tuple[CountedBlock, str]] = []
    gone: list[CountedBlock] = []
    for section in Section:
        old, new = before.row(section), now.row(section)
        changes, left = _changes(old.pieces, new.pieces)
        blocks += zip(new.pieces, changes, strict=True)
        gone += left
    return blocks, gone


def _changes(
    old: Sequence[CountedBlock], new: Sequence[CountedBlock]
) -> tuple[list[str], list[CountedBlock]]:
    """Say of each piece of a section what became of it, and which are gone."""
    places = _found(old, new)
    kept = _in_order(places)
    found = {each for each in places if each is not None}
    left = _by_object(piece for at, piece in enumerate(old) if at not in found)
    changes = []
    for at, piece in enumerate(new):
        if places[at] is not None:
            changes.append(SAME if at in kept else MOVED)
        elif left[piece.object_id] and not _is_asked(piece):
            left[piece.object_id].popleft()
            changes.append(CHANGED)
        else:
            changes.append(NEW)
    # What was asked then is the beginning of a turn now.
    return changes, [each for some in left.values() for each in some if not _is_asked(each)]


def _found(old: Sequence[CountedBlock], new: Sequence[CountedBlock]) -> list[int | None]:
    """Return where each piece stood before, by its text; None: nowhere."""
    places: defaultdict[str, deque[int]] = defaultdict(deque)
    for at, piece in enumerate(old):
        places[piece.text].append(at)
    return [places[each.text].popleft() if places[each.text] else None for each in new]


def _in_order(places: Sequence[int | None]) -> set[int]:
    """Choose as many as can be that stand in the order they stood in before; the rest moved."""
    ends: list[int] = []
    """The last place of the best run of each length."""
    last: list[int] = []
    before: dict[int, int | None] = {}
    for at, place in enumerate(places):
        if place is None:
            continue
        length = bisect_left(ends, place)
        before[at] = last[length - 1] if length else None
        ends[length : length + 1] = [place]
        last[length : length + 1] = [at]
    return set(_chain(last[-1] if last else None, before))


def _chain(end: int | None, before: Mapping[int, int | None]) -> Iterator[int]:
    while end is not None:
        yield end
        end = before[end]


def _by_object(pieces: Iterable[CountedBlock]) -> defaultdict[str | None, deque[CountedBlock]]:
    grouped: defaultdict[str | None, deque[CountedBlock]] = defaultdict(deque)
    for piece in pieces:
        grouped[piece.object_id].append(piece)
    return grouped


def _is_asked(piece: CountedBlock) -> bool:
    """Tell what the user said last: it is new in every prompt."""
    return piece.section is Section.CHAT and piece.object_id is None
