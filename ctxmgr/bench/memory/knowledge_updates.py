"""Which statement does a new one take the place of? LongMemEval's knowledge updates.

Of each question the later statement is new, and the earlier one is in memory, among all statements
of users: is it among the ten that the search of memory finds? Then the rule for restated values
looks at the twenty best of a memory of 48 sessions, as one user may have: how many of its proposals
name the statement that is superseded, and how many of those it finds. A statement of the same
session with the same value counts as right for the precision; the note has the figure without.
"""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import orjson

from ctxmgr.bench.report import Figure, Say
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.memory.contradiction_scanner import NEAREST
from ctxmgr.memory.contradictions.restated_values import restated_value
from ctxmgr.memory.extraction.findings import as_line
from ctxmgr.memory.records.bodies import Episode
from ctxmgr.memory.records.levels import levels_by_rule
from ctxmgr.memory.records.memory import Author, Memory, MemoryKind, Origin, Visibility
from ctxmgr.memory.relevance import MemoryPool
from ctxmgr.search.static_vectors import StaticEmbedder

FOUND_BOUND: Final = 0.86
PRECISION_BOUND: Final = 0.90
RECALL_BOUND: Final = 0.29
CANDIDATES: Final = 10
SESSIONS: Final = 48
FILE_BYTES_MAX: Final = 500_000_000
NOW: Final = 1_790_000_000_000
TITLE_CHARS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    old: str
    """The id of the statement that is superseded."""
    new: str
    """The text of the one that takes its place."""
    session: str
    """Of the new one."""
    old_session: str


def knowledge_update_figures(folder: Path, *, quick: bool, say: Say) -> list[Figure]:
    """Measure the search for superseded statements, and the rule."""
    sessions, updates = _read(folder)
    if not updates:
        return []
    updates = updates[:3] if quick else updates
    say(f"memory: LongMemEval, {len(updates)} knowledge updates")
    embedder = StaticEmbedder.load()
    everything = _pool([each for turns in sessions.values() for each in turns], embedder)
    hits = sum(_rank(everything, update) < CANDIDATES for update in updates)
    statements = sum(map(len, sessions.values()))
    proposed = right = repeated = 0
    for number, update in enumerate(updates):
        named, correct, alike = _proposals(sessions, update, embedder, seed=number)
        proposed, right, repeated = proposed + named, right + correct, repeated + alike
    precision, recall = (right + repeated) / max(1, proposed), right / len(updates)
    return [
        Figure(
            what=f"knowledge updates: the superseded statement among {CANDIDATES} candidates",
            value=hits / len(updates),
            bound=f"at least {FOUND_BOUND:g}",
            meets=round(hits / len(updates), 2) >= FOUND_BOUND,
            against="BM25 0.80; with a sentence model 0.86",
            note=f"{len(updates)} updates, {statements:,} statements of users; static vectors",
        ),
        Figure(
            what="knowledge updates: proposals by rule, precision",
            value=precision,
            bound=f"at least {PRECISION_BOUND:g}",
            meets=round(precision, 2) >= PRECISION_BOUND,
            against="–",
            note=f"{proposed} proposals in memories of {SESSIONS} sessions: {right} name the marked"
            f" statement ({right / max(1, proposed):.2f}), {repeated} one that says the same",
        ),
        Figure(
            what="knowledge updates: proposals by rule, recall",
            value=recall,
            bound=f"at least {RECALL_BOUND:g}",
            meets=round(recall, 2) >= RECALL_BOUND,
            against="–",
            note="what changes by implication is not found by rules",
        ),
    ]


def _proposals(
    sessions: Mapping[str, Sequence[Memory]],
    update: _Update,
    embedder: StaticEmbedder,
    *,
    seed: int,
) -> tuple[int, int, int]:
    """Return how many statements a new one proposes to replace: all, the right one, and repeats."""
    random = Random(seed)  # noqa: S311 -- repeatable
    others = sorted(sessions.keys() - {update.session, update.old_session})
    chosen = {*random.sample(others, min(SESSIONS - 2, len(others))), update.old_session}
    known = {each.id: each for name in sorted(chosen) for each in sessions[name]}
    pool = _pool(list(known.values()), embedder)
    found = list(pool.relevance(update.new))[:NEAREST]
    named = {
        each: values[0]
        for each in found
        if (values := restated_value(known[each].levels.full, update.new, idf=pool.rarity))
    }
    repeats = [
        each
        for each, value in named.items()
        if each != update.old
        and known[each].origin.session_id == update.old_session
        and value in known[update.old].levels.full.lower()
    ]
    return len(named), int(update.old in named), len(repeats)


def _rank(pool: MemoryPool, update: _Update) -> int:
    own = f"session:{update.session}"
    found = [each for each in pool.relevance(update.new) if pool.group_of(each) != own]
    return found.index(update.old) if update.old in found else len(found) + CANDIDATES


def _pool(memories: Sequence[Memory], embedder: StaticEmbedder) -> MemoryPool:
    pool = MemoryPool(embedder)
    for memory in memories:
        pool.put(memory)
    return pool


def _read(folder: Path) -> tuple[dict[str, list[Memory]], list[_Update]]:
    """Return the users' statements of each session, and the updates among them."""
    sessions: dict[str, list[Memory]] = {}
    updates = []
    count = TokenCounter().count
    for path in sorted(folder.glob("longmemeval*.json.gz")):
        with gzip.open(path) as file:
            entries = orjson.loads(file.read(FILE_BYTES_MAX))
        for entry in entries:
            marked: list[tuple[str, str, Memory]] = []
            for name, day, turns in zip(
                entry["haystack_session_ids"],
                entry["haystack_dates"],
                entry["haystack_sessions"],
                strict=True,
            ):
                said = [turn for turn in turns if turn["role"] == "user"]
                if name not in sessions:
                    place = len(sessions)
                    sessions[name] = [
                        _statement(name, place, turn, number, count)
                        for number, turn in enumerate(said)
                    ]
                marked += [
                    (day, name, memory)
                    for turn, memory in zip(said, sessions[name], strict=True)
                    if turn.get("has_answer")
                ]
            if entry["question_type"] == "knowledge-update":
                updates += _update(sorted(marked, key=lambda each: each[0]))
    return sessions, updates


def _update(marked: Sequence[tuple[str, str, Memory]]) -> list[_Update]:
    if len({session for _, session, _ in marked}) < 2:  # noqa: PLR2004 -- earlier and later
        return []
    _, session, new = marked[-1]
    old = [(name, memory) for _, name, memory in marked if name != session][-1]
    return [_Update(old=old[1].id, new=new.levels.full, session=session, old_session=old[0])]


def _statement(
    session: str, place: int, turn: Mapping[str, Any], number: int, count: Any
) -> Memory:
    text = str(turn["content"])
    body = Episode(title=as_line(text, TITLE_CHARS) or "-", full_narrative=text or "-")
    return Memory(
        id=f"00000000-0000-4000-8000-{place:06x}{number:06x}",
        body=body,
        kind=MemoryKind.NOTE,
        levels=levels_by_rule(body, count),
        author=Author.RULE,
        visibility=Visibility.USER_PRIVATE,
        user_id="ada",
        project_id="longmemeval",
        created_at=NOW,
        valid_from=NOW,
        origin=Origin(session_id=session, turn=number + 1),
    )
