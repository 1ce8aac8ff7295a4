"""Which pieces are stored already, and what proves it. Pure.

A store may outlive the database behind its address: a node in memory is started again, an older
copy is put in place. What it remembers is therefore believed only together with an anchor, the
record of a transaction that pieces were there with, which has the random name of the call that made
it. A transaction that leaves pieces out matches their anchors. Logs only grow, so whichever
database holds that record holds all that was put up to it; in any other one the match fails, and
nothing is written.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

KNOWN_PIECES_MAX: Final = 65_536
"""Names of stored pieces that are remembered, so as not to send them again: 8 MB of memory."""

ANCHORS_MAX: Final = 8
"""Matched in one transaction. A session and a chat saved together have one after the first save."""

ANCHOR_BYTES_MAX: Final = 1_024
"""Of a record that serves as one: those that delete much are too long to be sent again."""


class KnownPieces:
    """Names of stored pieces, each with its anchor; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._anchors: OrderedDict[str, str] = OrderedDict()

    def learn(self, piece_ids: Iterable[str], *, anchor: str) -> None:
        """Note that whichever database holds the anchor holds these pieces."""
        if len(anchor.encode()) > ANCHOR_BYTES_MAX:
            return
        for each in piece_ids:
            self._anchors[each] = anchor
            self._anchors.move_to_end(each)
        while len(self._anchors) > KNOWN_PIECES_MAX:
            self._anchors.popitem(last=False)

    def anchored(self, piece_ids: Collection[str]) -> dict[str, str]:
        """Return the anchors of the pieces that need not be sent, by piece."""
        found = {each: self._anchors[each] for each in piece_ids if each in self._anchors}
        for each in found:
            self._anchors.move_to_end(each)
        chosen = {anchor for anchor, _ in Counter(found.values()).most_common(ANCHORS_MAX)}
        return {each: anchor for each, anchor in found.items() if anchor in chosen}

    def forget(self) -> None:
        """Believe nothing any more."""
        self._anchors.clear()
