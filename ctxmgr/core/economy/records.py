"""The part of a turn record from which an economy prompt is rebuilt. Pure.

    settings, epoch    the policy at that time
    pool               the lines of the epoch's snapshot
    views              slot → what was shown of it; a slot without a view was shown whole
    notices            turn → the notices before it
    masks              tool call → positions of secrets in its output, and their replacements
    files              active file → hash of the text that was last shown of it
    plan               what was folded for this call, and why
    compaction         the summary that is shown instead of the first turns; absent if there is none
    stream             what the next prompt needs besides the above, to continue after a resume

A record that does not begin a chain lists only the views, notices and masks that are new since the
previous record. Records of version 0.1 have no ``stream``. Masks are stored because a later release
may recognise more secrets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.economy.folding import TextView
from ctxmgr.core.economy.planner import FoldPlan
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.economy.stream_state import StreamState
from ctxmgr.core.economy.stream_turns import COMPACTED, ECONOMY_RENDERER, Notice
from ctxmgr.core.economy.summary import Summary
from ctxmgr.errors import Corrupt, Incorrect

Masks: TypeAlias = tuple[tuple[int, int, str], ...]
"""Start and end of each secret in a text, and its replacement; in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EconomyRecord:
    """Everything that determines an economy prompt besides the stored objects."""

    policy: Economy
    epoch: int
    pool: tuple[str, ...]
    views: Mapping[str, TextView] = field(repr=False)
    viewed: AppendOnly[str] = field(default_factory=AppendOnly, repr=False, compare=False)
    """The keys of the views in the order in which they were set; empty: not known."""
    notices: Mapping[int, tuple[Notice, ...]] = field(repr=False)
    masks: Mapping[str, Masks] = field(default_factory=dict)
    files: Mapping[str, str]
    plan: FoldPlan | None = None
    stream: StreamState | None = field(default=None, repr=False)
    """None: the record was made by version 0.1."""
    summary: Summary | None = None
    """What is shown instead of the first turns."""

    @property
    def renderer(self) -> str:
        """How the prompt was rendered. One with a summary cannot be rebuilt by earlier versions."""
        return ECONOMY_RENDERER + (COMPACTED if self.summary is not None else "")

    def to_value(self, before: "EconomyRecord | None" = None) -> dict[str, Any]:
        """Return the value to store after a record with ``before``."""
        views = before.views if before else {}
        notices = before.notices if before else {}
        masks = before.masks if before else {}
        pool = before.pool if before else None
        value = {
            "name": self.policy.name,
            "settings": self.policy.to_value(),
            "epoch": self.epoch,
            "pool": None if self.pool == pool else list(self.pool),
            "views": {
                key: self.views[key].to_value()
                for key in self._viewed_since(before)
                if key in self.views and self.views[key] != views.get(key)
            },
            "notices": {
                str(turn): [notice.to_value() for notice in of_turn]
                for turn, of_turn in self.notices.items()
                if of_turn != notices.get(turn)
            },
            "masks": {
                object_id: [list(mask) for mask in of_call]
                for object_id, of_call in self.masks.items()
                if object_id not in masks
            },
            "files": dict(self.files),
            "plan": None if self.plan is None else self.plan.to_value(),
        }
        if self.summary is not None:
            same = before is not None and before.summary == self.summary
            value["compaction"] = None if same else self.summary.to_value()
        if self.stream is not None:
            value["stream"] = self.stream.to_value(before.stream if before else None)
        return value

    def _viewed_since(self, before: Self | None) -> Iterable[str]:
        """Return the keys whose views may differ: those that were set since, if that is known."""
        known = before is not None and len(before.viewed) and self.viewed.continues(before.viewed)
        if before is None or not known:
            return self.views
        return dict.fromkeys(self.viewed[len(before.viewed) :])

    @classmethod
    def joined(cls, values: Iterable[Mapping[str, Any]]) -> Self:
        """Merge the stored values of a chain of records, oldest first; the last one wins."""
        last: Mapping[str, Any] | None = None
        pool: tuple[str, ...] = ()
        views: dict[str, TextView] = {}
        notices: dict[int, tuple[Notice, ...]] = {}
        masks: dict[str, Masks] = {}
        streams: list[Mapping[str, Any] | None] = []
        summary: Summary | None = None
        try:
            for last in values:
                streams.append(last.get("stream"))
                summary = compaction_of(last, summary)
                pool = pool if last["pool"] is None else tuple(last["pool"])
                views |= {key: TextView.from_value(view) for key, view in last["views"].items()}
                notices |= {
                    int(turn): tuple(map(Notice.from_value, of_turn))
                    for turn, of_turn in last["notices"].items()
                }
                masks |= {
                    object_id: tuple((start, end, text) for start, end, text in of_call)
                    for object_id, of_call in last["masks"].items()
                }
            if last is None:
                raise Corrupt("no record of the chain has a policy")
            return cls(
                policy=Economy.from_value(last["settings"]),
                epoch=last["epoch"],
                pool=pool,
                views=views,
                notices=notices,
                masks=masks,
                files=last["files"],
                stream=StreamState.joined(streams),
                summary=summary,
            )
        except (KeyError, TypeError, ValueError, AttributeError, Incorrect) as error:
            raise Corrupt(f"a turn record does not say how its prompt was made: {error}") from error


def compaction_of(value: Mapping[str, Any], before: Summary | None) -> Summary | None:
    """Return the summary of a stored value; ``before`` is that of the previous record."""
    if "compaction" not in value:
        return None
    stored = value["compaction"]
    return before if stored is None else Summary.from_value(stored)


def masked(text: str, masks: Masks) -> str:
    """Return the text with every secret replaced."""
    parts, position = [], 0
    for start, end, replacement in masks:
        parts += [text[position:start], replacement]
        position = end
    return "".join([*parts, text[position:]])
