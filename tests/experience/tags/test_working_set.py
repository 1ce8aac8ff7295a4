"""The tags in memory."""

from pathlib import Path

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.annotations import Tag
from ctxmgr.experience.records.kinds import TagType
from ctxmgr.experience.tags.working_set import InMemoryTagIndex
from tests.experience.packs import PACK, small_pack


def _tag(number: int) -> Tag:
    return Tag(
        id=f"tag-{number}", name=str(number), tag_type=TagType.CUSTOM, created_at=1, created_by="be"
    )


def test_only_primary_concepts_are_loaded(tmp_path: Path) -> None:
    """000-R195, 000-R197, 000-R216: the rest of the graph stays in its file."""
    index = InMemoryTagIndex()

    loaded = index.load_concept_pack_primaries(small_pack(tmp_path))

    assert loaded == len(index.active_tags) == 5
    assert f"{PACK}::Entity" not in index.active_tags
    assert index.concept_hierarchy[f"{PACK}::Trait"] == [f"{PACK}::Honesty", f"{PACK}::Deceit"]


def test_the_least_recently_used_tags_are_evicted() -> None:
    """000-R198: looking a tag up counts as use."""
    index = InMemoryTagIndex()
    for number in range(5):
        index.add_to_working_set(_tag(number))
    index.get("tag-0")
    index.add_to_working_set(_tag(1))

    dropped = index.evict_unused(max_size=3)

    assert dropped == 2
    assert list(index.active_tags) == ["tag-4", "tag-0", "tag-1"]
    assert index.get("tag-2") is None


def test_ten_thousand_tags_stay_unless_configured() -> None:
    """000-R198: the default size."""
    index = InMemoryTagIndex()
    for number in range(10_001):
        index.add_to_working_set(_tag(number))

    assert index.evict_unused() == 1
    with pytest.raises(Incorrect, match="-1 tags"):
        index.evict_unused(-1)


def test_the_hierarchy_forgets_what_was_evicted(tmp_path: Path) -> None:
    """000-R197: the map would otherwise grow for ever."""
    index = InMemoryTagIndex()
    index.load_concept_pack_primaries(small_pack(tmp_path))

    index.evict_unused(max_size=1)

    kept = next(iter(index.active_tags))
    assert {child for children in index.concept_hierarchy.values() for child in children} <= {kept}
