"""A part of a search index as arrays: postings of pieces and of whole sources. Needs NumPy.

Pieces have slots in the order of their sources, with empty slots around each source, so that the
neighbours of a piece are found without asking where its source ends:

    slots     · · · · a0 a1 a2 · · · · b0 b1 · · · ·
    number            0  1  2          3  4

A segment never changes. What is removed from an index is marked outside of it, and what is added
makes another segment; ``merge`` joins several and drops what was removed. Scores are computed from
counts, so they do not depend on how an index is divided.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Self, TypeAlias
from zlib import crc32

import numpy as np

from ctxmgr.errors import Corrupt
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.terms import STOP_WORDS, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int32]
    Floats: TypeAlias = NDArray[np.float32]

GAP: Final = 4
"""Empty slots between sources: as far as neighbours count."""

SPEAKER_NONE: Final = 0
DAY_NONE: Final = 0

TermIds: TypeAlias = Callable[[Iterable[str]], Mapping[str, int]]
"""Returns the numbers of terms, new ones included."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PoolSegment:
    """Postings in the order of term numbers: those of ``terms[n]`` begin at ``offsets[n]``."""

    terms: "Ints"
    offsets: "Ints"
    slots: "Ints"
    counts: "Ints"
    source_offsets: "Ints"
    sources: "Ints"
    source_counts: "Ints"
    first: "Ints"
    """The first slot of each source."""
    pieces: "Ints"
    """The number of pieces of each source."""
    lengths: "Ints"
    """Words in the piece of each slot, stop words included."""
    speakers: "Ints"
    """The term number of each slot's speaker."""
    days: "Ints"
    """The ordinal day of each source; 0: none."""
    keys: "Ints"
    """A number for each source that depends on its id alone, for repeatable samples."""

    @cached_property
    def source_lengths(self) -> "Ints":
        """The words of each source."""
        total = np.concatenate(([0], np.cumsum(self.lengths, dtype=np.int64)))
        lengths: Ints = (total[self.first + self.pieces] - total[self.first]).astype(np.int32)
        return lengths

    @cached_property
    def speaker_numbers(self) -> frozenset[int]:
        """The term numbers of all speakers."""
        return frozenset(np.unique(self.speakers).tolist()) - {SPEAKER_NONE}

    def place(self, term: int) -> int | None:
        """Return where the postings of a term are; None if there are none."""
        place = int(self.terms.searchsorted(term))
        return place if place < len(self.terms) and self.terms[place] == term else None

    def postings(self, place: int) -> "tuple[Ints, Ints]":
        """Return the slots of a term's pieces in their order, and how often each has it."""
        here = slice(int(self.offsets[place]), int(self.offsets[place + 1]))
        return self.slots[here], self.counts[here]

    def source_postings(self, place: int) -> "tuple[Ints, Ints]":
        """Return a term's sources in their order, and how often each has it."""
        here = slice(int(self.source_offsets[place]), int(self.source_offsets[place + 1]))
        return self.sources[here], self.source_counts[here]

    def arrays(self) -> dict[str, bytes]:
        """Return the arrays as bytes, by name."""
        return {
            field.name: np.ascontiguousarray(getattr(self, field.name), dtype="<i4").tobytes()
            for field in fields(self)
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, bytes]) -> Self:
        """Read what ``arrays`` returned; ``Corrupt`` if it does not fit together."""
        missing = {field.name for field in fields(cls)} - arrays.keys()
        if missing:
            raise Corrupt(f"a segment of the search index has no {', '.join(sorted(missing))}")
        try:
            segment = cls(
                **{
                    field.name: np.frombuffer(arrays[field.name], dtype="<i4")
                    for field in fields(cls)
                }
            )
        except ValueError as error:
            raise Corrupt(f"a segment of the search index is damaged: {error}") from error
        segment._check()
        return segment

    def _check(self) -> None:
        slots = len(self.lengths)
        fits = (
            len(self.offsets) == len(self.source_offsets) == len(self.terms) + 1
            and self.offsets[-1] == len(self.slots) == len(self.counts)
            and self.source_offsets[-1] == len(self.sources) == len(self.source_counts)
            and len(self.first) == len(self.pieces) == len(self.days) == len(self.keys)
            and len(self.speakers) == slots
            and _inside(self.slots, slots)
            and _inside(self.sources, len(self.first))
            and _inside(self.first + self.pieces, slots)
            and slots == GAP + int(self.pieces.sum()) + GAP * len(self.first)
        )
        if not fits:
            raise Corrupt("a segment of the search index is damaged: its arrays do not fit")


def _inside(numbers: "Ints", end: int) -> bool:
    return len(numbers) == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < end)


_EMPTY: Final = np.zeros(0, dtype=np.int32)


class _Stems(dict[str, int]):
    """Words → the numbers of their stems, in the order of arrival; a stop word has none."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        stem = None if word in STOP_WORDS else english_stem(word)
        number = -1 if stem is None else self.numbers.setdefault(stem, len(self.numbers))
        self[word] = number
        return number


def build(sources: Sequence[SearchSource], term_ids: TermIds) -> PoolSegment:
    """Index sources in their order."""
    stems = _Stems()
    said = array("i")
    slot = GAP
    first = []
    slot_count = GAP + sum(len(source.pieces) + GAP for source in sources)
    lengths = np.zeros(slot_count, dtype=np.int32)
    speaker_of: dict[int, str] = {}
    for source in sources:
        first.append(slot)
        for piece, text in zip(source.pieces, source.piece_texts(), strict=True):
            found = words(text)
            said.extend(map(stems.__getitem__, found))
            lengths[slot] = len(found)
            if piece.speaker is not None:
                speaker_of[slot] = speaker_term(piece.speaker)
            slot += 1
        slot += GAP
    known = term_ids({*stems.numbers, *speaker_of.values()})
    speakers = np.full(slot_count, SPEAKER_NONE, dtype=np.int32)
    for place, name in speaker_of.items():
        speakers[place] = known[name]
    return _segment(
        postings=_counted(
            np.array(said, dtype=np.int32),
            np.repeat(np.arange(slot_count, dtype=np.int32), lengths),
            ids=_ints([known[stem] for stem in stems.numbers]),
        ),
        first=_ints(first),
        pieces=_ints([len(source.pieces) for source in sources]),
        lengths=lengths,
        speakers=speakers,
        days=_ints([source.day.toordinal() if source.day else DAY_NONE for source in sources]),
        keys=_ints([crc32(source.source_id.encode()) & 0x7FFFFFFF for source in sources]),
    )


def _counted(said: "Ints", slots: "Ints", *, ids: "Ints") -> "tuple[Ints, Ints, Ints]":
    """Return each term of each slot once, with its count; ``said`` numbers the stems of words."""
    kept = said >= 0
    width = len(ids) or 1
    pairs, counts = np.unique(slots[kept].astype(np.int64) * width + said[kept], return_counts=True)
    return ids[pairs % width], _ints(pairs // width), _ints(counts)


def merge(parts: "Sequence[tuple[PoolSegment, NDArray[np.bool_]]]") -> PoolSegment:
    """Join segments, each with the sources that are kept, in their order."""
    postings: list[tuple[Ints, Ints, Ints]] = []
    columns: list[tuple[Ints, Ints, Ints]] = []
    slot_values: list[tuple[Ints, Ints]] = []
    start = GAP
    firsts = []
    for segment, kept in parts:
        source_of = slot_sources(segment)
        pieces = segment.pieces[kept]
        first = (start + np.concatenate(([0], np.cumsum(pieces + GAP)[:-1]))).astype(np.int32)
        first = first[: len(pieces)]
        new_first = np.zeros(len(kept), dtype=np.int32)
        new_first[kept] = first
        posting_source = source_of[segment.slots]
        live = kept[posting_source]
        moved = segment.slots + (new_first - segment.first)[posting_source]
        term_of = np.repeat(segment.terms, np.diff(segment.offsets))
        postings.append((term_of[live], moved[live], segment.counts[live]))
        columns.append((pieces, segment.days[kept], segment.keys[kept]))
        firsts.append(first)
        chosen = np.flatnonzero((source_of >= 0) & np.where(source_of >= 0, kept[source_of], False))
        slot_values.append((segment.lengths[chosen], segment.speakers[chosen]))
        start += int((pieces + GAP).sum())
    terms, slots, counts = (np.concatenate(column) for column in zip(*postings, strict=True))
    pieces, days, keys = (np.concatenate(column) for column in zip(*columns, strict=True))
    first = np.concatenate(firsts)
    lengths = np.zeros(start, dtype=np.int32)
    speakers = np.full(start, SPEAKER_NONE, dtype=np.int32)
    places = piece_slots(first, pieces)
    lengths[places], speakers[places] = (
        np.concatenate(column) for column in zip(*slot_values, strict=True)
    )
    return _segment(
        postings=(terms, slots, counts),
        first=first,
        pieces=pieces,
        lengths=lengths,
        speakers=speakers,
        days=days,
        keys=keys,
    )


def slot_sources(segment: PoolSegment) -> "Ints":
    """Return the source of each slot; -1 for an empty one."""
    owners = np.full(len(segment.lengths), -1, dtype=np.int32)
    numbers = np.arange(len(segment.first), dtype=np.int32)
    owners[piece_slots(segment.first, segment.pieces)] = np.repeat(numbers, segment.pieces)
    return owners


def piece_slots(first: "Ints", pieces: "Ints") -> "Ints":
    """Return the slots of the pieces of sources, one source after the other."""
    ends = pieces.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    slots: Ints = (first - ends + pieces).repeat(pieces).astype(np.int32)
    slots += np.arange(total, dtype=np.int32)
    return slots


def _segment(
    *,
    postings: "tuple[Ints, Ints, Ints]",
    first: "Ints",
    pieces: "Ints",
    lengths: "Ints",
    speakers: "Ints",
    days: "Ints",
    keys: "Ints",
) -> PoolSegment:
    """Sort the postings by term, then slot, and sum them up by source."""
    terms, slots, counts = postings
    order = np.lexsort((slots, terms))
    terms, slots, counts = terms[order], slots[order], counts[order]
    unique, starts = np.unique(terms, return_index=True)
    owners = np.full(len(lengths), -1, dtype=np.int32)
    owners[piece_slots(first, pieces)] = np.repeat(np.arange(len(first), dtype=np.int32), pieces)
    owner = owners[slots]
    is_new = np.ones(len(slots), dtype=np.bool_)
    is_new[1:] = (terms[1:] != terms[:-1]) | (owner[1:] != owner[:-1])
    heads = np.flatnonzero(is_new)
    sums = np.add.reduceat(counts, heads) if len(heads) else _EMPTY
    return PoolSegment(
        terms=_ints(unique),
        offsets=_ints([*starts, len(terms)]),
        slots=_ints(slots),
        counts=_ints(counts),
        source_offsets=_ints([*np.searchsorted(heads, starts), len(heads)]),
        sources=_ints(owner[heads]),
        source_counts=_ints(sums),
        first=_ints(first),
        pieces=_ints(pieces),
        lengths=lengths,
        speakers=speakers,
        days=_ints(days),
        keys=_ints(keys),
    )


def _ints(numbers: "Sequence[int] | NDArray[np.int64] | Ints") -> "Ints":
    return np.asarray(numbers, dtype=np.int32)


def index_terms(text: str) -> list[str]:
    """Return the stems of a text's words, without stop words."""
    return list(map(english_stem, _kept(words(text))))


def _kept(found: Iterable[str]) -> list[str]:
    return [word for word in found if word not in STOP_WORDS]


def speaker_term(name: str) -> str:
    """Return the term under which a speaker is numbered, which no word is equal to."""
    return f"@{name.lower()}"


@lru_cache(maxsize=131_072)
def english_stem(word: str) -> str:
    """Reduce a word to its Snowball stem."""
    return str(_stemmer().stemWord(word))


@lru_cache(maxsize=1)
def _stemmer() -> "Stemmer":
    from snowballstemmer import stemmer  # noqa: PLC0415 -- loads some thirty languages

    english: Stemmer = stemmer("english")
    return english


if TYPE_CHECKING:
    from typing import Protocol

    class Stemmer(Protocol):
        def stemWord(self, word: str) -> str: ...  # noqa: N802
