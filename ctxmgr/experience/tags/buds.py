"""Buds: tags on their way to become a graft, and the steps of that way. Pure.

    any tag ─promote─► collecting ─► ready ─► training ─► promoted
                           ▲                     │
                           └──── it failed ──────┘          any of them ─► abandoned ─revert─► tag

A bud that was another tag before keeps its type in ``origin_type``, so that it can revert.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.annotations import Tag
from ctxmgr.experience.records.kinds import BudStatus, TagType

NEXT: Final[Mapping[BudStatus, frozenset[BudStatus]]] = MappingProxyType(
    {
        BudStatus.COLLECTING: frozenset({BudStatus.READY, BudStatus.ABANDONED}),
        BudStatus.READY: frozenset({BudStatus.TRAINING, BudStatus.ABANDONED}),
        BudStatus.TRAINING: frozenset(
            {BudStatus.PROMOTED, BudStatus.COLLECTING, BudStatus.ABANDONED}
        ),
        BudStatus.PROMOTED: frozenset({BudStatus.ABANDONED}),
        BudStatus.ABANDONED: frozenset(),
    }
)
"""What may follow each status."""

CANDIDATES: Final = (BudStatus.COLLECTING, BudStatus.READY, BudStatus.TRAINING)
"""Buds that are still on their way."""


def promoted_to_bud(tag: Tag) -> Tag:
    """Return the tag as a bud that collects examples; ``Incorrect`` if it is one already."""
    if tag.tag_type is TagType.BUD:
        raise Incorrect(f"the tag {tag.name!r} is a bud already ({tag.bud_status})")
    return replace(
        tag, tag_type=TagType.BUD, bud_status=BudStatus.COLLECTING, origin_type=tag.tag_type
    )


def with_status(tag: Tag, status: BudStatus) -> Tag:
    """Return the bud with its next status; ``Incorrect`` if that cannot follow."""
    current = require_bud_status(tag)
    if status not in NEXT[current]:
        possible = ", ".join(sorted(NEXT[current])) or "nothing: revert it first"
        raise Incorrect(
            f"the bud {tag.name!r} is {current} and cannot become {status}; possible: {possible}"
        )
    return replace(tag, bud_status=status)


def reverted(tag: Tag) -> Tag:
    """Return an abandoned bud as the tag that it was before."""
    if require_bud_status(tag) is not BudStatus.ABANDONED:
        raise Incorrect(f"the bud {tag.name!r} is {tag.bud_status}; abandon it before reverting it")
    if tag.origin_type is None:
        raise Incorrect(f"the bud {tag.name!r} was created as a bud and has nothing to revert to")
    return replace(tag, tag_type=tag.origin_type, bud_status=None, origin_type=None)


def require_bud_status(tag: Tag) -> BudStatus:
    """Return the status of a bud; ``Incorrect`` if the tag is not one."""
    if tag.tag_type is not TagType.BUD or tag.bud_status is None:
        raise Incorrect(f"the tag {tag.name!r} is not a bud; promote it first")
    return tag.bud_status
