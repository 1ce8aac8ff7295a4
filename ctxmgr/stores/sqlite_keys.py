"""Keys of transactions that were committed without one. Pure, but for chance.

    mark    8 random bytes, and after a match 8 more: the beginning of the matches' hash.
            It stands where other transactions have the digest of their operations. A writer has
            its mark until something is rolled back; a transaction without one has that of the
            last before it that has
    key     the random bytes in hex, "-", the sequence

A sequence alone would not do: when a COMMIT fails it is free again for another transaction.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson

from ctxmgr.core.store import Match

MARK_EVERY: Final = 64
"""Transactions after which a mark is written again, so that looking for it stays quick."""

_CHANCE_BYTES: Final = 8
"""Together with the sequence: two transactions never have the same in practice."""

_KEY: Final = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,14})")
"""The sequence is below 2^49, because a write's number is 14 bits longer."""


class OwnKey(NamedTuple):
    chance: bytes
    sequence: int


def _chance() -> bytes:
    return secrets.token_bytes(_CHANCE_BYTES)


@dataclass(slots=True)
class Marks:
    """Which mark a writer's next transaction has, and whether it must be written."""

    chance: bytes = field(default_factory=_chance)
    _last: int = -1
    """The newest transaction after which our mark still holds."""
    _written: int = -1
    """The newest transaction that our mark was written with; -1: none that counts."""

    def renew(self) -> None:
        """Take another mark: sequences that were given out may be given out again."""
        self.chance, self._written = _chance(), -1

    def begin(self, last: int) -> None:
        """See whether someone else wrote since: what follows theirs must be marked anew."""
        if last != self._last:
            self._last, self._written = last, -1

    def follow(self, sequence: int) -> None:
        """Note a transaction of our own."""
        self._last = sequence

    def mark(self, sequence: int, matches: tuple[Match, ...]) -> bytes | None:
        """What to write with a transaction that has no key; None: nothing."""
        is_known = self._written >= 0 and sequence - self._written < MARK_EVERY
        if is_known and not matches:
            return None
        self._written = sequence
        return self.chance + (hash_of_matches(matches) if matches else b"")


def own_key(mark: bytes | None, sequence: int) -> str:
    """The key of a transaction that got none from its caller; files may have some without mark."""
    return f"{(mark or b'')[:_CHANCE_BYTES].hex()}-{sequence}"


def read_key(key: str) -> OwnKey | None:
    """Take apart what ``own_key`` made; None: a caller's own."""
    found = _KEY.fullmatch(key)
    return None if found is None else OwnKey(bytes.fromhex(found[1]), int(found[2]))


def is_marked(mark: bytes | None, own: OwnKey) -> bool:
    """Tell whether the key names the transaction of that mark."""
    return mark is not None and mark[:_CHANCE_BYTES] == own.chance


def had_matches(written: bytes | None, matches: tuple[Match, ...]) -> bool:
    """Tell whether these are the matches of the transaction that this was written with."""
    return (written or b"")[_CHANCE_BYTES:] == (hash_of_matches(matches) if matches else b"")


def hash_of_matches(matches: tuple[Match, ...]) -> bytes:
    """Name the matches of a transaction, in 8 bytes."""
    # Of texts, small integers and nulls in lists orjson's form is the canonical one.
    plain = [(each.object_id, each.token, each.valid_time) for each in matches]
    return hashlib.sha256(orjson.dumps(plain)).digest()[:8]
