"""The prompts of a session, each made from the one before and proven by its hash. Pure.

    join   take in what a record says, without making its prompt
    make   the prompt of the record that was joined last

Making a prompt from its records alone costs its length; making each of a thousand so costs their
square. Here a step costs what is new, and a look at the pieces that are not.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ctxmgr.core.assembly import RENDERER, Section
from ctxmgr.core.canonical import canonical
from ctxmgr.core.economy_walk import EconomyWalk
from ctxmgr.core.envelopes import system_prompt_id
from ctxmgr.core.hashes import sha256
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.lines import ended
from ctxmgr.core.plain_walk import PlainWalk
from ctxmgr.core.prompt_rows import JOINED, Count, CountedBlock, Prompt, Row
from ctxmgr.core.seen_versions import Versions, seen
from ctxmgr.core.stream_turns import ECONOMY_RENDERER
from ctxmgr.core.turns import ShownVersion, TurnRecord
from ctxmgr.errors import Corrupt, HashMismatch, Incorrect

if TYPE_CHECKING:
    from hashlib import _Hash

HASHED_PIECES: Final = 16
"""Pieces between two states of a hash that are kept: so many at most are hashed again."""


class PromptWalk:
    """Goes from prompt to prompt, in the order of the turns."""

    def __init__(self, turns: Sequence[Turn], versions: Versions, *, count: Count) -> None:
        """``turns`` are the session's, and ``versions`` all that its prompts showed."""
        self._versions = versions
        self._count = count
        self._plain = PlainWalk(turns, versions, count=count)
        self._economy = EconomyWalk(turns, versions, count=count)
        self._record: TurnRecord | None = None
        self._made: TurnRecord | None = None
        self._shown: dict[str, ShownVersion] = {}
        self._paragraphs: dict[tuple[Section, str | None, str], CountedBlock] = {}
        self._rows = {section: Row(section) for section in Section}
        self._hashes = {section: RunningHash(section) for section in JOINED}

    def join(self, record: TurnRecord) -> None:
        """Take in the record of the next turn."""
        before, self._record = self._record, record
        if record.snapshot == record.n:
            self._shown = {}
        elif before is None or not _follows(record, before):
            raise Corrupt(f"{record.object_id}: the records before it do not join up")
        self._shown.update((each.object_id, each) for each in record.shown)
        if record.policy is not None:
            whole = record.snapshot == record.n or before is None or before.policy is None
            self._economy.take(record.policy, whole=whole)

    def make(self) -> Prompt:
        """Make the prompt again; ``Corrupt`` unless it hashes to what was sent."""
        record = self._record
        assert record is not None, "a record was joined"
        layout, given = self._layout(record), self._given(record)
        self._made = record
        pieces = layout | {
            section: [each for each in some if each.text] for section, some in given.items()
        }
        self._rows = {
            section: row.become(pieces.get(section, ())) for section, row in self._rows.items()
        }
        computed = self._prompt_hash(given)
        if computed != record.prompt_hash:
            raise HashMismatch(record.object_id, "prompt_hash", record.prompt_hash, computed)
        return Prompt(tuple(row for row in self._rows.values() if row.pieces))

    def _layout(self, record: TurnRecord) -> dict[Section, Sequence[CountedBlock]]:
        renderer = RENDERER if record.policy is None else ECONOMY_RENDERER
        if record.renderer != renderer:
            raise Incorrect(f"{record.object_id} was made by {record.renderer}, not {renderer}")
        if record.policy is not None:
            return self._economy.rows(record, self._shown)
        made = self._made
        whole = made is None or made.policy is not None or not _follows(record, made)
        return self._plain.rows(record, self._shown, whole=whole)

    def _given(self, record: TurnRecord) -> dict[Section, list[CountedBlock]]:
        """Return the system prompt, and what layers contributed, be it nothing."""
        object_id = system_prompt_id(record.session)
        if object_id not in self._shown:
            raise Corrupt(f"{object_id}: the record does not say which version was shown")
        prompt = seen(self._versions, self._shown[object_id]).content or ""
        pieces = {Section.SYSTEM: [self._paragraph(Section.SYSTEM, object_id, prompt)]}
        for each in record.contributions:
            pieces.setdefault(each.slot, []).append(self._paragraph(each.slot, None, each.text))
        return pieces

    def _paragraph(self, section: Section, object_id: str | None, text: str) -> CountedBlock:
        key = (section, object_id, ended(text))
        if key not in self._paragraphs:
            hashed = sha256(key[2].encode())
            self._paragraphs[key] = CountedBlock.of(*key, count=self._count, hashed=hashed)
        return self._paragraphs[key]

    def _prompt_hash(self, given: Mapping[Section, Sequence[CountedBlock]]) -> str:
        """Hash the prompt as ``Context.prompt_hash`` does."""
        hashed = {section: _hashes(pieces) for section, pieces in given.items()}
        hashed[Section.ACTIVE] = _hashes(self._rows[Section.ACTIVE].pieces)
        for section in JOINED:
            hashed[section] = [self._hashes[section].of(self._rows[section])]
        return sha256(canonical({str(section): each for section, each in hashed.items()}))


class RunningHash:
    """SHA-256 of a row's pieces joined, for rows that mostly grow at their end."""

    def __init__(self, section: Section) -> None:
        self._row = Row(section)
        self._states: list[_Hash] = [hashlib.sha256()]
        """After every ``HASHED_PIECES`` pieces."""

    def of(self, row: Row) -> str:
        """Return the hash of these; what was there the last time is not hashed again."""
        kept, pieces = row.shared(self._row) // HASHED_PIECES, row.pieces
        del self._states[kept + 1 :]
        self._row = row
        for at in range(kept * HASHED_PIECES, len(pieces), HASHED_PIECES):
            some = pieces[at : at + HASHED_PIECES]
            state = self._states[-1].copy()
            state.update("".join([each.text for each in some]).encode())
            self._states.append(state)
        last = self._states[-1].hexdigest()
        if len(pieces) % HASHED_PIECES:
            del self._states[-1]
        return last


def _hashes(pieces: Sequence[CountedBlock]) -> list[str]:
    return [each.hash for each in pieces if each.hash is not None]


def _follows(record: TurnRecord, before: TurnRecord) -> bool:
    """Tell whether a record continues the one before: same chain, next turn."""
    same = (record.session, record.snapshot) == (before.session, before.snapshot)
    return same and record.n == before.n + 1
