"""Build a concept pack from WordNet 3.0. Reads the files of Debian's ``wordnet-base``.

Nouns and verbs become concepts ``org.princeton/wordnet-3.0::dog.n.01``, numbered by sense as in
WordNet's index. Their definitions are the glosses; example sentences are left out. A concept is
primary if WordNet's tagged texts use it at least ``PRIMARY_USES_MIN`` times. The licence notice at
the top of WordNet's files goes into the manifest, as the licence demands.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.errors import Corrupt, NotFound
from ctxmgr.experience.concepts.concept import (
    HIERARCHY,
    Concept,
    ConceptSource,
    PackManifest,
)
from ctxmgr.experience.concepts.write_pack import write_pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxmgr.search.embedder import Embedder

FOLDER: Final = Path("/usr/share/wordnet")
NAME: Final = "org.princeton/wordnet-3.0"
PRIMARY_USES_MIN: Final = 2
"""Some 14,000 concepts: senses that were seen once are often tagged by chance."""

_PARTS: Final = {"noun": ("n", "1"), "verb": ("v", "2")}
"""Part of speech: its letter, and its number in sense keys."""

_KINDS: Final = {
    "@": "is_a",
    "@i": "instance_of",
    "!": "antonym",
    "#m": "member_of",
    "#s": "substance_of",
    "#p": "part_of",
    "%m": "has_member",
    "%s": "has_substance",
    "%p": "has_part",
    "=": "attribute",
    "+": "derivation",
    ";c": "topic",
    ";r": "region",
    ";u": "usage",
    "-c": "topic_member",
    "-r": "region_member",
    "-u": "usage_member",
    "*": "entails",
    ">": "causes",
    "^": "also_see",
    "$": "verb_group",
}
"""WordNet's pointer symbols. Those to children are left out: they repeat ``@`` from below."""

_EXAMPLE: Final = re.compile(r";?\s*\"[^\"]*\"?")
_LICENCE_LINE: Final = re.compile(r"  \d+ ?(.*)")


@dataclass(frozen=True, slots=True)
class _Synset:
    key: str
    """Letter and offset: ``n02084071``."""
    words: tuple[tuple[str, str], ...]
    """Each with its sense key."""
    pointers: tuple[tuple[str, str], ...]
    gloss: str


def build_wordnet_pack(
    path: Path,
    *,
    folder: Path = FOLDER,
    embedder: Embedder | None = None,
    below: str | None = None,
) -> int:
    """Write the pack and return the number of its concepts.

    ``below`` is the id of a concept: only it and what lies below it are written.
    """
    if not (folder / "data.noun").is_file():
        raise NotFound(f"no WordNet in {folder}: install the Debian package wordnet-base")
    uses = dict(_uses(folder))
    synsets = [each for part in _PARTS for each in _synsets(folder, part)]
    ids = _ids(folder, synsets)
    shares = _shares(synsets, uses)
    sources = [_source(synset, ids, shares, uses) for synset in synsets]
    if below is not None:
        sources = _only_below(sources, below)
    manifest = PackManifest(
        name=NAME, version="3.0", licence=_licence(folder), source="Debian wordnet-base"
    )
    write_pack(path, manifest=manifest, concepts=sources, embedder=embedder)
    return len(sources)


def examples(folder: Path = FOLDER) -> Iterator[tuple[str, str]]:
    """Yield each example sentence of WordNet with the id of the concept that it shows.

    Packs do not contain them, so they test whether a lens finds the concept.
    """
    synsets = [each for part in _PARTS for each in _synsets(folder, part)]
    ids = _ids(folder, synsets)
    for synset in synsets:
        for sentence in re.findall(r"\"([^\"]+)\"", synset.gloss):
            yield sentence, ids[synset.key]


def _synsets(folder: Path, part: str) -> Iterator[_Synset]:
    letter, number = _PARTS[part]
    for line in _lines(folder / f"data.{part}"):
        fields, _, gloss = line.partition(" | ")
        try:
            yield _synset(fields.split(), gloss.strip(), letter, number)
        except (ValueError, IndexError) as error:
            raise Corrupt(f"{folder}/data.{part} has an unreadable line: {line[:80]!r}") from error


def _synset(fields: list[str], gloss: str, letter: str, number: str) -> _Synset:
    offset, lexicographer, _, count = fields[:4]
    after_words = 4 + 2 * int(count, 16)
    pairs = zip(fields[4:after_words:2], fields[5:after_words:2], strict=True)
    words = tuple(
        (word, f"{word.lower()}%{number}:{lexicographer}:{int(lex_id, 16):02}::")
        for word, lex_id in pairs
    )
    pointers = []
    for index in range(int(fields[after_words])):
        start = after_words + 1 + 4 * index
        symbol, other, other_letter = fields[start : start + 3]
        if symbol in _KINDS and other_letter in {"n", "v"}:
            pointers.append((_KINDS[symbol], other_letter + other))
    return _Synset(letter + offset, words, tuple(dict.fromkeys(pointers)), gloss)


def _ids(folder: Path, synsets: list[_Synset]) -> dict[str, str]:
    """Return the id of each synset: its first word, and that word's sense number."""
    senses: dict[tuple[str, str], int] = {}
    for part, (letter, _) in _PARTS.items():
        for line in _lines(folder / f"index.{part}"):
            fields = line.split()
            count = int(fields[2])
            for sense, offset in enumerate(fields[-count:], 1):
                senses[fields[0], letter + offset] = sense
    ids = {}
    for synset in synsets:
        word = synset.words[0][0].lower()
        if (word, synset.key) not in senses:
            raise Corrupt(f"{folder}: the index lacks {word} ({synset.key})")
        ids[synset.key] = f"{NAME}::{word}.{synset.key[0]}.{senses[word, synset.key]:02}"
    return ids


def _uses(folder: Path) -> Iterator[tuple[str, int]]:
    for line in _lines(folder / "cntlist.rev"):
        key, _, count = line.split()
        yield key, int(count)


def _shares(synsets: list[_Synset], uses: dict[str, int]) -> dict[str, float]:
    """Return for each sense key the share of the word's uses that have this sense."""
    totals: dict[str, float] = defaultdict(float)
    weights = {}
    for synset in synsets:
        for word, key in synset.words:
            weights[key] = uses.get(key, 0) + 0.5
            totals[word.lower()] += weights[key]
    return {
        key: weights[key] / totals[word.lower()] for synset in synsets for word, key in synset.words
    }


def _source(
    synset: _Synset, ids: dict[str, str], shares: dict[str, float], uses: dict[str, int]
) -> ConceptSource:
    concept = Concept(
        concept_id=ids[synset.key],
        name=synset.words[0][0].replace("_", " "),
        gloss=_EXAMPLE.sub("", synset.gloss).strip(" ;"),
        is_primary=sum(uses.get(key, 0) for _, key in synset.words) >= PRIMARY_USES_MIN,
    )
    return ConceptSource(
        concept=concept,
        names={word.replace("_", " "): round(shares[key], 4) for word, key in synset.words},
        relations=tuple((kind, ids[other]) for kind, other in synset.pointers if other in ids),
    )


def _only_below(sources: list[ConceptSource], top: str) -> list[ConceptSource]:
    children: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for kind, other in source.relations:
            if kind in HIERARCHY:
                children[other].append(source.concept.concept_id)
    kept, level = {top}, [top]
    while level:
        level = [child for each in level for child in children[each] if child not in kept]
        kept.update(level)
    return [
        ConceptSource(
            concept=source.concept,
            names=source.names,
            relations=tuple(pair for pair in source.relations if pair[1] in kept),
        )
        for source in sources
        if source.concept.concept_id in kept
    ]


def _licence(folder: Path) -> str:
    with (folder / "data.noun").open(encoding="utf-8") as file:
        notice = []
        for line in file:
            match = _LICENCE_LINE.match(line)
            if match is None:
                break
            notice.append(match[1].rstrip())
    return "\n".join(notice).strip()


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file of WordNet, without its licence notice."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.startswith("  "):
                yield line.rstrip("\n")
