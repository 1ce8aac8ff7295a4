"""The way of a bud."""

import itertools

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.annotations import Tag
from ctxmgr.experience.records.kinds import BudStatus, TagType
from ctxmgr.experience.tags.buds import promoted_to_bud, reverted, with_status

ALLOWED = {
    ("collecting", "ready"),
    ("ready", "training"),
    ("training", "promoted"),
    ("training", "collecting"),
    *((status, "abandoned") for status in ("collecting", "ready", "training", "promoted")),
}


def _bud(status: BudStatus, **fields: object) -> Tag:
    return Tag(
        id="tag-1",
        name="irony",
        tag_type=TagType.BUD,
        bud_status=status,
        created_at=1,
        created_by="be",
        **fields,
    )


@pytest.mark.parametrize(("before", "after"), list(itertools.product(BudStatus, BudStatus)))
def test_a_status_follows_only_where_the_way_leads(before: BudStatus, after: BudStatus) -> None:
    """000-R135, 000-R014, 000-A14: every pair of states, and only eight of them are steps."""
    if (before, after) in ALLOWED:
        assert with_status(_bud(before), after).bud_status is after
    else:
        with pytest.raises(Incorrect, match=f"is {before} and cannot become {after}"):
            with_status(_bud(before), after)


def test_an_abandoned_bud_becomes_the_tag_that_it_was() -> None:
    """000-R133, 000-A13: promoting keeps the earlier type, so that it can be undone."""
    tag = Tag(
        id="tag-1",
        name="Ada",
        tag_type=TagType.ENTITY,
        entity_type="person",
        created_at=1,
        created_by="be",
    )

    bud = promoted_to_bud(tag)
    abandoned = with_status(bud, BudStatus.ABANDONED)

    assert (bud.tag_type, bud.bud_status) == (TagType.BUD, BudStatus.COLLECTING)
    assert bud.origin_type is TagType.ENTITY
    assert reverted(abandoned) == tag


def test_what_cannot_be_promoted_or_reverted_says_why() -> None:
    """Each message names the state that is in the way."""
    with pytest.raises(Incorrect, match="is a bud already"):
        promoted_to_bud(_bud(BudStatus.READY))
    with pytest.raises(Incorrect, match="abandon it before"):
        reverted(_bud(BudStatus.READY))
    with pytest.raises(Incorrect, match="created as a bud"):
        reverted(_bud(BudStatus.ABANDONED))
