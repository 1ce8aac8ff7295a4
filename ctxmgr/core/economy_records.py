"""What a turn record says of an economy prompt, so that it can be made again. Pure.

    settings, epoch    the policy as it was
    pool               the lines of the epoch's snapshot
    views              place → what was shown of it; what has none was whole
    notices            turn → what was appended before it
    masks              tool call → secrets in its output, by place, and what stood there instead
    files              active file → hash of the text that was last shown of it
    plan               what was folded for this call, and why

A record that does not begin a chain lists only the views, notices and masks that are new since the
one before. Masks are kept because a later version may recognise more secrets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self, TypeAlias

from ctxmgr.core.folding import View
from ctxmgr.core.planner import Plan
from ctxmgr.core.policies import Economy
from ctxmgr.core.stream_turns import Notice
from ctxmgr.errors import Corrupt, Incorrect

Masks: TypeAlias = tuple[tuple[int, int, str], ...]
"""From where to where a secret stands in a text, and what is shown instead; in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """All that decides an economy prompt besides what is stored anyway."""

    policy: Economy
    epoch: int
    pool: tuple[str, ...]
    views: Mapping[str, View] = field(repr=False)
    notices: Mapping[int, tuple[Notice, ...]] = field(repr=False)
    masks: Mapping[str, Masks] = field(default_factory=dict)
    files: Mapping[str, str]
    plan: Plan | None = None

    def to_value(self, before: "Told | None" = None) -> dict[str, Any]:
        """Return what the record keeps, given what the record before it keeps."""
        views = before.views if before else {}
        notices = before.notices if before else {}
        masks = before.masks if before else {}
        pool = before.pool if before else None
        return {
            "name": self.policy.name,
            "settings": self.policy.to_value(),
            "epoch": self.epoch,
            "pool": None if self.pool == pool else list(self.pool),
            "views": {
                key: view.to_value() for key, view in self.views.items() if view != views.get(key)
            },
            "notices": {
                str(turn): [notice.to_value() for notice in told]
                for turn, told in self.notices.items()
                if told != notices.get(turn)
            },
            "masks": {
                object_id: [list(each) for each in found]
                for object_id, found in self.masks.items()
                if object_id not in masks
            },
            "files": dict(self.files),
            "plan": None if self.plan is None else _plan_value(self.plan),
        }

    @classmethod
    def joined(cls, values: Iterable[Mapping[str, Any]]) -> Self:
        """Join what the records of a chain say, oldest first; the last decides."""
        last: Mapping[str, Any] | None = None
        pool: tuple[str, ...] = ()
        views: dict[str, View] = {}
        notices: dict[int, tuple[Notice, ...]] = {}
        masks: dict[str, Masks] = {}
        try:
            for last in values:
                pool = pool if last["pool"] is None else tuple(last["pool"])
                views |= {key: View.from_value(each) for key, each in last["views"].items()}
                notices |= {
                    int(turn): tuple(map(Notice.from_value, told))
                    for turn, told in last["notices"].items()
                }
                masks |= {
                    object_id: tuple((start, end, text) for start, end, text in found)
                    for object_id, found in last["masks"].items()
                }
            if last is None:
                raise Corrupt("no record of the chain says how the prompt was made")
            return cls(
                policy=Economy.from_value(last["settings"]),
                epoch=last["epoch"],
                pool=pool,
                views=views,
                notices=notices,
                masks=masks,
                files=last["files"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, Incorrect) as error:
            raise Corrupt(f"a turn record does not say how its prompt was made: {error}") from error


def masked(text: str, masks: Masks) -> str:
    """Return the text with every secret replaced."""
    pieces, at = [], 0
    for start, end, instead in masks:
        pieces += [text[at:start], instead]
        at = end
    return "".join([*pieces, text[at:]])


def _plan_value(plan: Plan) -> dict[str, Any]:
    value = asdict(plan)
    return value | {"reason": str(plan.reason), "folds": len(plan.folds)}
