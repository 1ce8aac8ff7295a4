"""Keep MEMORY.md below its cap and move what is old to the archive. Works on drafts.

Nothing is deleted: what leaves MEMORY.md is in another note or in ``archive/memory/``, what leaves
its folder is in ``archive/``, and git has every version (002-R195).
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from ctxmgr.errors import CtxmgrError
from ctxmgr.knowledge.lifecycle.draft import NotesDraft
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import counted, new_note, plain
from ctxmgr.knowledge.notes.layout import (
    MEMORY_FILE,
    Category,
    archive_path,
    day_of,
    journal_path,
)
from ctxmgr.knowledge.notes.note import Note
from ctxmgr.knowledge.notes.sections import Bullet, add_bullet, sections
from ctxmgr.knowledge.notes.wikilinks import resolve, wikilinks

DECAY: Final = 0.05
"""Per day: half of a score is left after some 14 days (002-R194)."""
SCORE_MIN: Final = 0.01
AGE_DAYS_MIN: Final = 30
STALE_DAYS: Final = 30
"""After which an entry of Active Context is not active any more."""
SIMILAR: Final = 0.8
"""Share of common words from which two entries say the same."""
NEGATIONS: Final = frozenset({"never", "always", "not", "no", "none", "cannot", "without", "t"})
"""Words by which one entry says the opposite of another; ``t`` is what is left of "don't"."""
ACTIVE_CONTEXT: Final = "Active Context"
COVERED: Final = "another note has it"
HISTORY: Final = "archive/memory/MEMORY.md"
"""Entries that left MEMORY.md."""
EVICTED: Final = (Category.PROJECT, Category.PERSON, Category.PROCEDURE, Category.REFERENCE)
"""Categories that are scored; identity, memory, journals and topics are exempt (002-A27)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A note that moved to the archive, and why."""

    path: str
    to: str
    score: float
    age_days: int
    references: int


class MemoryPruner:
    """Prunes a draft of the notes as of a day."""

    def __init__(self, draft: NotesDraft, *, today: date) -> None:
        self._draft = draft
        self._today = today

    def prune_memory(self, *, cap: int) -> list[str]:
        """Bring MEMORY.md to at most ``cap`` lines; return what was done, an entry a line.

        Above the cap, and in this order until it fits: entries that another note has, entries that
        say the same as a newer one, stale entries of Active Context, then the oldest ones.
        """
        text = self._draft.get(MEMORY_FILE)
        if text is None or len(text.splitlines()) <= cap:
            return []
        text = counted(text)  # the field may be a line of its own
        done: list[str] = []
        for reason, candidates in (
            (COVERED, self._covered(text)),
            ("a newer entry says the same", _redundant(text)),
            ("stale", self._stale(text)),
            ("the oldest", _oldest_first(text)),
        ):
            for bullet in candidates:
                if len(text.splitlines()) <= cap:
                    break
                shorter = without_bullet(text, bullet)
                if shorter == text:
                    continue
                text = shorter
                done.append(f"{reason}: {bullet.text[:80]}")
                if reason != COVERED:
                    self._keep(bullet)
        self._draft.put(MEMORY_FILE, counted(text), reason="over its cap", moved_to=HISTORY)
        return done

    def drop_stale(self) -> list[str]:
        """Move entries of Active Context that are older than a month to the archive."""
        text = self._draft.get(MEMORY_FILE)
        done = []
        for bullet in self._stale(text) if text else ():
            shorter = without_bullet(text or "", bullet)
            if shorter != text:
                text = shorter
                self._keep(bullet)
                done.append(f"stale: {bullet.text[:80]}")
        if done and text is not None:
            self._draft.put(MEMORY_FILE, counted(text), reason="stale entries", moved_to=HISTORY)
        return done

    def prune_journals(self, *, retention_days: int) -> list[tuple[str, str]]:
        """Move journals from before the retention to the archive."""
        oldest = self._today - timedelta(days=retention_days)
        moved = []
        for path in self._draft.paths(Category.JOURNAL):
            day = day_of(path)
            if day is not None and day < oldest and path == journal_path(day):
                to = archive_path(path)
                self._draft.move(path, to, reason=f"older than {retention_days} days")
                moved.append((path, to))
        return moved

    def score_and_evict(self) -> list[Eviction]:
        """Move notes that nobody changed or refers to for long to the archive."""
        references = self._references()
        evicted = []
        for note in list(self._draft.notes(*EVICTED)):
            if not self._draft.is_ours(note.path):
                continue
            if note.path.rpartition("/")[2].startswith("_") or note.frontmatter.get("pinned"):
                continue
            age = max(0, (self._today - self._changed(note)).days)
            count = references.get(note.path, 0)
            score = eviction_score(age_days=age, references=count, relevance=_relevance(note))
            if score < SCORE_MIN and age > AGE_DAYS_MIN:
                to = archive_path(note.path)
                self._draft.move(note.path, to, reason=f"score {score:.4f} after {age} days")
                evicted.append(
                    Eviction(path=note.path, to=to, score=score, age_days=age, references=count)
                )
        return evicted

    def _covered(self, text: str) -> list[Bullet]:
        others: set[str] = set()
        for note in self._draft.notes(*EVICTED):
            for section in note.sections:
                others |= {plain(bullet.text) for bullet in section.bullets}
        return [bullet for bullet in _bullets(text) if plain(bullet.text) in others]

    def _stale(self, text: str) -> list[Bullet]:
        oldest = self._today - timedelta(days=STALE_DAYS)
        return [
            bullet
            for section in sections(text)
            if section.title == ACTIVE_CONTEXT
            for bullet in section.bullets
            if bullet.day is not None and bullet.day < oldest
        ]

    def _keep(self, bullet: Bullet) -> None:
        at = int(datetime(*self._today.timetuple()[:3], tzinfo=UTC).timestamp() * 1_000)
        text = self._draft.get(HISTORY) or new_note(HISTORY, at=at)
        day = f"{bullet.day.isoformat()}: " if bullet.day else ""
        kept = add_bullet(text, "Entries", day + bullet.text)
        self._draft.put(HISTORY, kept, reason="entries that left MEMORY.md")

    def _references(self) -> dict[str, int]:
        """Count the notes that link to each note, and the topics that subscribe to it."""
        notes = list(self._draft.notes())
        paths = [note.path for note in notes]
        count: dict[str, int] = {}
        for note in notes:
            targets = {
                resolve(link, source=note.path, paths=paths) for link in wikilinks(note.body)
            }
            subscribed = note.frontmatter.get("subscriptions")
            if isinstance(subscribed, list):
                targets |= {str(path) for path in subscribed}
            for target in targets - {note.path, None}:
                if target is not None:
                    count[target] = count.get(target, 0) + 1
        return count

    def _changed(self, note: Note) -> date:
        if note.updated is not None:
            return note.updated.date()
        try:
            return datetime.fromtimestamp(self._draft.modified(note.path) / 1_000, UTC).date()
        except CtxmgrError:
            return self._today  # it is new in the draft


def eviction_score(*, age_days: int, references: int, relevance: float) -> float:
    """Return exp(-0.05 days) × max(references, 1) × relevance (002-R194, 002-A27)."""
    return math.exp(-DECAY * age_days) * max(references, 1) * relevance


def without_bullet(text: str, bullet: Bullet) -> str:
    """Return a note's text without a bullet and the indented lines below it."""
    wanted = plain(bullet.text)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if re.match(r"[-*+] ", line):
            end = number + 1
            while end < len(lines) and lines[end][:1].isspace() and lines[end].strip():
                end += 1
            same_day = bullet.day is None or bullet.day.isoformat() in line[:20]
            if same_day and plain("\n".join([line[2:], *lines[number + 1 : end]])) == wanted:
                return "\n".join([*lines[:number], *lines[end:]])
    return text


def _bullets(text: str) -> list[Bullet]:
    return [bullet for section in sections(text) for bullet in section.bullets]


def _redundant(text: str) -> list[Bullet]:
    """Return the older ones of dated entries that say the same; others are a person's own."""
    found: list[Bullet] = []
    kept: list[set[str]] = []
    for bullet in reversed(list(_oldest_first(text))):
        words = set(plain(bullet.text).split())
        if any(_say_the_same(words, other) for other in kept):
            found.append(bullet)
        else:
            kept.append(words)
    return found


def _say_the_same(one: set[str], other: set[str]) -> bool:
    """Whether entries have most words in common, and do not differ by a negation."""
    if NEGATIONS & (one ^ other):
        return False
    return len(one & other) >= SIMILAR * len(one | other)


def _oldest_first(text: str) -> Iterable[Bullet]:
    """Return dated entries, oldest first; what has no date is a person's own."""
    return sorted(
        (bullet for bullet in _bullets(text) if bullet.day is not None),
        key=lambda each: each.day or date.min,
    )


def _relevance(note: Note) -> float:
    """Return how much a note matters by its own account: its field ``relevance``, else 1."""
    value = note.frontmatter.get("relevance")
    return min(max(float(value), 0.0), 10.0) if isinstance(value, int | float) else 1.0
