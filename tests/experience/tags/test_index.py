"""Tags, their applications, and what they find."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.annotations import choose_target
from ctxmgr.experience.records.kinds import BudStatus, TagSource, TagType
from ctxmgr.experience.records.timestep import NewTimestep, TimestepRecord
from ctxmgr.experience.tags.index import TagIndex
from tests.experience.packs import PACK, small_pack

HONESTY = f"{PACK}::Honesty"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[ExperienceLog]:
    async with await ExperienceLog.open(tmp_path / "log") as log:
        for tick in range(1, 11):
            await log.record_timestep(
                TimestepRecord(
                    session_id="s",
                    tick=tick,
                    timestamp=tick,
                    event_type=EventType.OUTPUT,
                    content=f"word{tick}",
                    event_id="call" if tick in {4, 5} else None,
                )
            )
        yield log


@pytest.fixture
def tags(log: ExperienceLog, small: ConceptGraph) -> TagIndex:
    return TagIndex(log.file, log, be_id="be-1", concept_graph=small)


async def test_a_tag_is_stored_with_all_its_fields(tags: TagIndex) -> None:
    """000-R127, 000-R128, 000-R035, 000-R037, 000-R039: nothing that was given is dropped."""
    ada = await tags.create_tag(
        "Ada", TagType.ENTITY, entity_type="person", description="a colleague"
    )
    irony = await tags.create_tag("irony", TagType.BUD, related_concepts=[HONESTY])

    assert await tags.get_tag(ada.id) == ada
    assert (ada.entity_type, ada.created_by, ada.description) == ("person", "be-1", "a colleague")
    assert (await tags.require_tag(irony.id)).related_concepts == (HONESTY,)
    assert irony.bud_status is BudStatus.COLLECTING
    assert await tags.get_tag("tag-none") is None
    assert await tags.count() == (2, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "", "tag_type": TagType.CUSTOM},
        {"name": "a\nb", "tag_type": TagType.CUSTOM},
        {"name": "x" * 201, "tag_type": TagType.CUSTOM},
        {"name": "x", "tag_type": TagType.ENTITY},
        {"name": "x", "tag_type": TagType.CONCEPT},
        {"name": "x", "tag_type": TagType.CUSTOM, "concept_id": HONESTY},
        {"name": "x", "tag_type": TagType.BUD, "related_concepts": ["bad\n"]},
    ],
)
async def test_a_tag_that_makes_no_sense_is_refused(tags: TagIndex, fields: dict) -> None:
    """000-R188: the name of a tag may come from a model."""
    with pytest.raises(Incorrect):
        await tags.create_tag(**fields)


async def test_a_name_is_given_once_per_type(tags: TagIndex) -> None:
    """Two tags with one name would divide the examples of one thing."""
    await tags.create_tag("Mercury", TagType.CUSTOM)
    await tags.create_tag("Mercury", TagType.ENTITY, entity_type="place")

    with pytest.raises(Incorrect, match="there is a custom tag 'mercury' already"):
        await tags.create_tag("mercury", TagType.CUSTOM)


async def test_tags_are_found_by_pattern_type_and_status(tags: TagIndex) -> None:
    """000-R129: characters that SQL would expand mean themselves."""
    for name in ("author", "auth", "100%", "a_b"):
        await tags.create_tag(name, TagType.CUSTOM)
    bud = await tags.create_tag("authority", TagType.BUD)

    async def names(**filters: object) -> list[str]:
        return [tag.name for tag in await tags.find_tags(**filters)]

    assert await names(name_pattern="AUTH*") == ["auth", "author", "authority"]
    assert await names(name_pattern="100%") == ["100%"]
    assert await names(name_pattern="a_?") == ["a_b"]
    assert await names(tag_type=TagType.BUD) == ["authority"]
    assert await tags.find_tags(bud_status=BudStatus.READY) == []
    assert await tags.get_buds(BudStatus.COLLECTING) == [bud]


async def test_a_name_resolves_as_a_whole_or_not_at_all(tags: TagIndex) -> None:
    """000-R156: ``auth`` must not become ``author``; ids come before names."""
    author = await tags.create_tag("author", TagType.CUSTOM)
    named_like_an_id = await tags.create_tag(author.id, TagType.CUSTOM)

    assert await tags.resolve("auth") is None
    assert await tags.resolve("AUTHOR") == author
    assert await tags.resolve(author.id) == author
    assert named_like_an_id.id != author.id
    concept = await tags.resolve(HONESTY)
    assert concept is not None
    assert (concept.tag_type, concept.concept_id) == (TagType.CONCEPT, HONESTY)


async def test_applying_an_unknown_name_creates_a_custom_tag(tags: TagIndex) -> None:
    """000-R156, 000-R158, 000-R003: the second application uses the same tag."""
    target = choose_target("s", timestep_id="ts-s-1")

    first = await tags.apply("odd", target, confidence=0.75, note="why?")
    second = await tags.apply("Odd", target)

    assert first.tag_id == second.tag_id
    assert (await tags.require_tag(first.tag_id)).tag_type is TagType.CUSTOM
    assert first.id.startswith("ta-")
    assert len(first.id) == 15
    assert (first.source, first.confidence, first.note) == (TagSource.MANUAL, 0.75, "why?")


@pytest.mark.parametrize(
    ("target", "ticks"),
    [
        ({"timestep_id": "ts-s-2"}, [2]),
        ({"event_id": "call"}, [4, 5]),
        ({"tick_range": (7, 9)}, [7, 8, 9]),
    ],
)
async def test_every_kind_of_target_counts(
    tags: TagIndex, log: ExperienceLog, target: dict, ticks: list[int]
) -> None:
    """000-R134, 000-R168, PG-12: examples, recall and lookup know all three kinds of targets."""
    bud = await tags.create_tag("irony", TagType.BUD)
    await tags.apply(bud.id, choose_target("s", **target))

    examples = await tags.get_bud_examples(bud.id)
    recalled = await log.query(tags=[bud.id])

    assert [step.tick for step in examples] == ticks
    assert recalled == examples
    assert await log.get_tags_for_timestep(f"ts-s-{ticks[-1]}") == [bud]
    assert await log.get_tags_for_timestep("ts-s-10") == []


async def test_a_concept_is_stored_when_it_is_first_applied(
    tags: TagIndex, log: ExperienceLog
) -> None:
    """000-R036, PG-17: its id has dots, slashes and colons, in the tag and in the query."""
    assert await tags.find_tags(tag_type=TagType.CONCEPT) == []

    await tags.apply(HONESTY, choose_target("s", tick_range=(1, 2)))

    (stored,) = await tags.find_tags(tag_type=TagType.CONCEPT)
    assert stored.concept_id == HONESTY
    assert stored.created_by == "system"
    assert [step.tick for step in await log.query(tags=[HONESTY])] == [1, 2]


async def test_concepts_above_are_inherited(tags: TagIndex, log: ExperienceLog) -> None:
    """000-R221, 000-R016: what is honest is also a trait, and the log says why."""
    await tags.apply(HONESTY, choose_target("s", timestep_id="ts-s-3"), inherit=True)

    found = await log.get_tags_for_timestep("ts-s-3")
    rows = await log.file.read(
        lambda connection: connection.execute(
            "SELECT tag_id, source, inherited_from FROM tag_applications"
        ).fetchall()
    )

    assert [tag.name for tag in found] == ["Entity", "Honesty", "Trait", "Virtue"]
    assert {row for row in rows if row[1] == "inherited"} == {
        (f"{PACK}::{name}", "inherited", HONESTY) for name in ("Trait", "Virtue", "Entity")
    }


async def test_lenses_apply_tags_of_high_scores(tags: TagIndex, log: ExperienceLog) -> None:
    """000-R016: source ``auto``; the score is the confidence, and unknown concepts are no tags."""
    target = choose_target("s", event_id="call")

    applied = await tags.apply_activations(
        target, {HONESTY: 0.75, f"{PACK}::Deceit": 0.25, "other/pack::x": 0.9}
    )

    assert [(each.tag_id, each.source, each.confidence) for each in applied] == [
        (HONESTY, TagSource.AUTO, 0.75)
    ]
    assert [step.tick for step in await log.query(tags=[HONESTY])] == [4, 5]
    assert await tags.apply_activations(target, {HONESTY: 0.75}) == []


async def test_tags_and_foreign_keys_hold_after_a_restart(tmp_path: Path) -> None:
    """PG-11, 000-R189: one database for tags and applications."""
    async with await ExperienceLog.open(tmp_path / "log") as log:
        tags = TagIndex(log.file, log, be_id="be")
        await log.append("s", [NewTimestep(timestamp=1, event_type=EventType.OUTPUT)])
        application = await tags.apply("odd", choose_target("s", tick_range=(1, 2)))

    async with await ExperienceLog.open(tmp_path / "log") as log:
        tags = TagIndex(log.file, log, be_id="be")
        tag = await tags.resolve("odd")
        broken = await log.file.read(
            lambda connection: connection.execute("PRAGMA foreign_key_check").fetchall()
        )

    assert tag is not None
    assert tag.id == application.tag_id
    assert broken == []


async def test_a_bud_goes_its_way_in_the_store(tags: TagIndex) -> None:
    """000-R133, 000-R135, 000-R169: a concept can become a bud, and be a concept again."""
    bud = await tags.promote_to_bud(HONESTY)
    await tags.update_bud_status(HONESTY, BudStatus.READY)

    assert bud.origin_type is TagType.CONCEPT
    assert [tag.id for tag in await tags.get_buds(BudStatus.READY)] == [HONESTY]
    with pytest.raises(Incorrect, match="cannot become promoted"):
        await tags.update_bud_status(HONESTY, BudStatus.PROMOTED)
    await tags.update_bud_status(HONESTY, BudStatus.ABANDONED)
    assert (await tags.revert_bud(HONESTY)).tag_type is TagType.CONCEPT
    assert await tags.get_buds() == []
    with pytest.raises(NotFound, match="tag-none"):
        await tags.promote_to_bud("tag-none")


async def test_the_graph_is_navigated_in_tags(tags: TagIndex) -> None:
    """000-R130, 000-R131, 000-R132, 000-R165, 000-R166, 000-R214."""
    assert [tag.name for tag in tags.browse_concepts()] == ["Entity"]
    assert [tag.name for tag in tags.browse_concepts(f"{PACK}::Virtue")] == ["Honesty"]
    assert [tag.name for tag in tags.get_concept_parents(HONESTY)] == ["Trait", "Virtue"]
    related = tags.get_related_concepts(HONESTY)
    assert [(tag.name, kind) for tag, kind in related] == [("Deceit", "antonym")]
    assert [tag.id for tag in tags.find_concept("truth")] == [HONESTY]


async def test_without_a_pack_browsing_says_so(log: ExperienceLog) -> None:
    """000-R126: a pack is optional."""
    with pytest.raises(Incorrect, match="there is no concept pack"):
        TagIndex(log.file, log, be_id="be").browse_concepts()


async def test_the_working_set_begins_with_what_is_in_use(
    log: ExperienceLog, small: ConceptGraph
) -> None:
    """000-R195, 000-R196: primaries, candidate buds, recently used tags; nothing else."""
    first = TagIndex(log.file, log, be_id="be", concept_graph=small)
    bud = await first.create_tag("irony", TagType.BUD)
    gone = await first.create_tag("sarcasm", TagType.BUD)
    await first.update_bud_status(gone.id, BudStatus.ABANDONED)
    unused = await first.create_tag("unused", TagType.CUSTOM)
    used = await first.apply("used", choose_target("s", timestep_id="ts-s-1"))

    fresh = TagIndex(log.file, log, be_id="be", concept_graph=small)
    await fresh.load_working_set()

    active = fresh.working_set.active_tags
    assert {bud.id, used.tag_id, HONESTY} <= set(active)
    assert not {gone.id, unused.id, f"{PACK}::Entity"} & set(active)


async def test_a_pack_file_is_opened_by_its_path(tmp_path: Path, log: ExperienceLog) -> None:
    """000-R126: the index holds the graph."""
    with ConceptGraph.opened(small_pack(tmp_path)) as graph:
        index = TagIndex(log.file, log, be_id="be", concept_graph=graph)

        assert index.concept_graph is graph
