"""What a stream and its planner know besides the turns and their views. Pure.

    sent_at, sent, counted    when the prompt was rendered, its messages and its tokens
    samples                   counted and reported tokens of the last calls
    broken                    the first message that the last batch of folds changed
    asked_back                texts that were requested in full after a fold, by kind
    settled                   texts that are as short as they become by aging
    used, newest              of the other texts: the call that last used each, and which of them
                              are the newest of their file
    message_tokens            of every message of the closed turns
    touched, requested        files that calls have read or written since the prompt, and objects
                              that are to be shown in full in the next one

It is stored in turn records, so that a session that is resumed continues as if it had never been
interrupted, without building its stream again from the first turn. A record that does not begin a
chain lists only what is new since the previous record.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any, Self

from ctxmgr.core.discovery.known_tools import OutputKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The state of a stream and its planner when a prompt was rendered."""

    sent_at: float
    """Seconds since 1970."""
    sent: int
    counted: int
    samples: tuple[tuple[int, int], ...]
    broken: int
    asked_back: Mapping[str, int]
    settled: tuple[str, ...]
    """Keys of slots, in the order in which they were settled."""
    used: Mapping[str, int]
    newest: tuple[str, ...]
    message_tokens: tuple[int, ...]
    touched: tuple[str, ...] = ()
    requested: tuple[str, ...] = ()

    def to_value(self, before: "StreamState | None" = None) -> dict[str, Any]:
        """Return the value to store after a record with ``before``."""
        used = before.used if before else {}
        settled = len(before.settled) if before else 0
        tokens = before.message_tokens if before else ()
        return {
            "sent_at": self.sent_at,
            "sent": self.sent,
            "counted": self.counted,
            "samples": [list(sample) for sample in self.samples],
            "broken": self.broken,
            "asked_back": dict(self.asked_back),
            "settled": list(self.settled[settled:]),
            "used": {key: call for key, call in self.used.items() if used.get(key) != call},
            "newest": list(self.newest),
            "message_tokens": [
                [start, values] for start, values in _changes(tokens, self.message_tokens)
            ],
            "touched": list(self.touched),
            "requested": list(self.requested),
        }

    @classmethod
    def joined(cls, values: Iterable[Mapping[str, Any] | None]) -> "Self | None":
        """Merge the stored values of a chain of records, oldest first; None if one is missing."""
        last: Mapping[str, Any] | None = None
        settled: list[str] = []
        used: dict[str, int] = {}
        tokens: list[int] = []
        for last in values:
            if last is None:
                return None
            settled += last["settled"]
            used |= last["used"]
            for start, changed in last["message_tokens"]:
                tokens[start : start + len(changed)] = changed
        if last is None:
            return None
        numbers = (*tokens, *used.values(), *last["asked_back"].values())
        if not all(type(number) is int for number in numbers):
            raise ValueError("a count in the state of its stream is not an integer")
        if not all(type(name) is str for name in (*last["touched"], *last["requested"])):
            raise ValueError("the state of its stream has an id that is not a string")
        gone = frozenset(settled)
        return cls(
            sent_at=float(last["sent_at"]),
            sent=int(last["sent"]),
            counted=int(last["counted"]),
            samples=tuple((int(counted), int(reported)) for counted, reported in last["samples"]),
            broken=int(last["broken"]),
            asked_back={str(OutputKind(kind)): n for kind, n in last["asked_back"].items()},
            settled=tuple(settled),
            used={key: call for key, call in used.items() if key not in gone},
            newest=tuple(last["newest"]),
            message_tokens=tuple(tokens),
            touched=tuple(last["touched"]),
            requested=tuple(last["requested"]),
        )


def _changes(before: Sequence[int], now: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield the runs of values that are new or different, each with the index of its first."""
    if before == now[: len(before)]:
        if len(now) > len(before):
            yield len(before), list(now[len(before) :])
        return
    pairs = enumerate(zip_longest(now, before[: len(now)]))
    for changed, run in groupby(pairs, lambda pair: pair[1][0] != pair[1][1]):
        if changed:
            values = list(run)
            yield values[0][0], [new for _, (new, _) in values]
