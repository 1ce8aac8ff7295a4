"""What a stream and its planner know besides the turns and their views. Pure.

    sent_at, sent, counted    when the prompt was rendered, its messages and its tokens
    samples                   counted and reported tokens of the last calls
    broken                    the first message that the last batch of folds changed
    asked_back                texts that were requested in full after a fold, by kind
    settled                   texts that are as short as they become by aging
    used, newest              of the other texts: the call that last used each, and which of them
                              are the newest of their file
    repeated                  tokens of the lines of a text that are visible elsewhere, if it was
                              shown whole because it was asked for
    alone                     tokens of the lines of a text that would be kept if nothing else
                              were visible, if that was counted
    message_tokens            of every message of the closed turns
    touched, requested        files that calls have read or written since the prompt, and objects
                              that are to be shown in full in the next one

It is stored in turn records, so that a session that is resumed continues as if it had never been
interrupted, without building its stream again from the first turn. A record that does not begin a
chain lists only what is new since the previous record.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ctxmgr.core.append_only import AppendOnly
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
    marked: AppendOnly[str] = field(default_factory=AppendOnly, repr=False, compare=False)
    """The keys of ``used`` in the order in which their calls were set; empty: not known."""
    recounted: AppendOnly[int] = field(default_factory=AppendOnly, repr=False, compare=False)
    """The messages that were counted, in that order; empty: not known."""
    repeated: Mapping[str, int] = field(default_factory=dict)
    alone: Mapping[str, int] = field(default_factory=dict)

    def to_value(self, before: "StreamState | None" = None) -> dict[str, Any]:
        """Return the value to store after a record with ``before``."""
        settled = len(before.settled) if before else 0
        return {
            "sent_at": self.sent_at,
            "sent": self.sent,
            "counted": self.counted,
            "samples": [list(sample) for sample in self.samples],
            "broken": self.broken,
            "asked_back": dict(self.asked_back),
            "settled": list(self.settled[settled:]),
            "used": self._used_since(before),
            "newest": list(self.newest),
            "message_tokens": self._tokens_since(before),
            "touched": list(self.touched),
            "requested": list(self.requested),
            "repeated": dict(self.repeated),
            "alone": self._alone_since(before),
        }

    def _alone_since(self, before: "StreamState | None") -> dict[str, int]:
        known = before.alone if before else {}
        return {key: tokens for key, tokens in self.alone.items() if key not in known}

    def _used_since(self, before: "StreamState | None") -> dict[str, int]:
        keys: Iterable[str] = self.used
        used = before.used if before else {}
        if before is not None and len(before.marked) and self.marked.continues(before.marked):
            keys = dict.fromkeys(self.marked[len(before.marked) :])
        changed = ((key, self.used[key]) for key in keys if key in self.used)
        return {key: call for key, call in changed if used.get(key) != call}

    def _tokens_since(self, before: "StreamState | None") -> list[list[Any]]:
        """Return the runs of counts that are new or different, each after its first index."""
        now, tokens = self.message_tokens, before.message_tokens if before else ()
        positions: Iterable[int] = range(len(now))
        if (
            before is not None
            and len(before.recounted)
            and self.recounted.continues(before.recounted)
        ):
            positions = sorted(set(self.recounted[len(before.recounted) :]))
        runs: list[list[Any]] = []
        end = -1
        for at in positions:
            if at < len(tokens) and tokens[at] == now[at]:
                continue
            if at == end:
                runs[-1][1].append(now[at])
            else:
                runs.append([at, [now[at]]])
            end = at + 1
        return runs

    @classmethod
    def joined(cls, values: Iterable[Mapping[str, Any] | None]) -> "Self | None":
        """Merge the stored values of a chain of records, oldest first; None if one is missing."""
        last: Mapping[str, Any] | None = None
        settled: list[str] = []
        used: dict[str, int] = {}
        alone: dict[str, int] = {}
        tokens: list[int] = []
        for last in values:
            if last is None:
                return None
            settled += last["settled"]
            used |= last["used"]
            alone |= last.get("alone", {})  # records of economy/1 have none
            for start, changed in last["message_tokens"]:
                tokens[start : start + len(changed)] = changed
        if last is None:
            return None
        repeated = dict(last.get("repeated", {}))
        counts = (used, last["asked_back"], repeated, alone)
        numbers = (*tokens, *(number for each in counts for number in each.values()))
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
            repeated=repeated,
            alone={key: kept for key, kept in alone.items() if key not in gone},
        )
