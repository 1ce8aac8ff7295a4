"""Tags, concepts, lenses and documents through the door of the layer."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ctxmgr import connect, open_store
from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.experience.documents.document import DocumentType
from ctxmgr.experience.hooks import WorkspaceHooks
from ctxmgr.experience.lenses.lens import LensPolicy, Moment
from ctxmgr.experience.records.annotations import choose_target
from ctxmgr.experience.records.kinds import BudStatus, TagType
from ctxmgr.experience.records.timestep import NewTimestep
from ctxmgr.experience.tags import index
from ctxmgr.experience.xdb import XDB
from tests.experience.packs import PACK, small_pack

HONESTY, DECEIT = f"{PACK}::Honesty", f"{PACK}::Deceit"
TRUE = "He kept his promises and went on telling the truth, with honesty"


@pytest.fixture
async def xdb(tmp_path: Path) -> AsyncIterator[XDB]:
    async with XDB(tmp_path / "xdb", "be-1", small_pack(tmp_path)) as xdb:
        await xdb.start_session("s")
        for word in ("one", "two", "three"):
            await xdb.record(EventType.OUTPUT, word, event_id="answer")
        yield xdb


async def test_a_tag_has_exactly_one_target(xdb: XDB) -> None:
    """000-R155, 000-R157, 000-R158: neither none nor two."""
    applied = await xdb.tag("odd", timestep_id="ts-s-2", confidence=0.5, note="hm")

    assert applied.startswith("ta-")
    assert [step.tick for step in await xdb.recall(tags=["odd"])] == [2]
    with pytest.raises(ValueError, match="exactly one"):
        await xdb.tag("odd")
    with pytest.raises(ValueError, match="exactly one"):
        await xdb.tag("odd", timestep_id="ts-s-1", tick_range=(1, 2))


async def test_what_was_not_recorded_cannot_be_annotated(xdb: XDB) -> None:
    """000-R155, 000-R164, 000-A33: a wrong tick is an error, not a mark that nobody finds."""
    targets: list[dict[str, Any]] = [{"timestep_id": "ts-s-4"}, {"tick_range": (4, 9)}]
    for target in targets:
        with pytest.raises(NotFound, match="no tick 4 in session 's': its last tick is 3"):
            await xdb.tag("misplaced", **target)
        with pytest.raises(NotFound, match="no tick 4"):
            await xdb.comment("misplaced", **target)
    with pytest.raises(NotFound, match="nothing was recorded in it"):
        await xdb.comment("misplaced", timestep_id="ts-other-1")

    assert await xdb.tag_index.resolve("misplaced") is None
    await xdb.tag("rest", tick_range=(3, 9))


async def test_what_was_surprising_is_recalled(xdb: XDB) -> None:
    """000-R163, 000-R161: one of four tags is enough, on any kind of target."""
    await xdb.tag("Surprising", timestep_id="ts-s-1")
    await xdb.tag("confusing", tick_range=(3, 3))
    await xdb.tag("boring", timestep_id="ts-s-2")

    assert [step.tick for step in await xdb.recall_surprising()] == [1, 3]
    assert [step.tick for step in await xdb.recall_surprising(limit=1)] == [1]


async def test_entities_and_buds_are_created(xdb: XDB) -> None:
    """000-R159, 000-R160, 000-R167, 000-R168, 000-R169: with what belongs to them."""
    ada = await xdb.create_entity_tag("Ada", "person")
    bud = await xdb.create_bud_tag("irony", "says the opposite", [HONESTY])
    await xdb.tag(bud.id, event_id="answer")

    ready = await xdb.mark_bud_ready(bud.id)

    assert (ada.tag_type, ada.entity_type) == (TagType.ENTITY, "person")
    assert ready.related_concepts == (HONESTY,)
    assert await xdb.get_buds(BudStatus.READY) == [ready]
    assert [step.tick for step in await xdb.get_bud_examples(bud.id)] == [1, 2, 3]


async def test_concepts_are_browsed_and_found(xdb: XDB) -> None:
    """000-R165, 000-R166, 000-R151: the pack is given by its path."""
    assert [tag.name for tag in await xdb.browse_concepts()] == ["Entity"]
    assert [tag.name for tag in await xdb.browse_concepts(f"{PACK}::Trait")] == [
        "Deceit",
        "Honesty",
    ]
    assert [tag.id for tag in await xdb.find_concept("honest")] == [HONESTY]
    with pytest.raises(NotFound):
        await xdb.browse_concepts("none")


async def test_the_state_counts_what_there_is(xdb: XDB) -> None:
    """000-R173, 000-R220: tags, buds and documents."""
    await xdb.create_bud_tag("irony", "says the opposite")
    await xdb.tag("odd", timestep_id="ts-s-1")

    state = await xdb.get_state()

    assert (state["tag_count"], state["bud_count"], state["document_count"]) == (2, 1, 0)
    assert xdb.tag_index.concept_graph is not None


async def test_streamed_tokens_have_the_concepts_of_their_words(tmp_path: Path) -> None:
    """000-R002, 000-R175, 000-R176, 000-R112: words are scored; hidden concepts are not shown."""
    policy = LensPolicy(hidden=frozenset({DECEIT}))
    async with XDB(tmp_path / "x", "be", small_pack(tmp_path), lens_policy=policy) as xdb:
        await xdb.start_session("s")
        hooks = WorkspaceHooks(xdb)
        hooks.on_input("Tell me about deceit and honesty")
        for token in ("Hon", "esty", ",", " and", " deceit", "."):
            hooks.on_output_token(token, turn=1)
        await xdb.flush()

        steps = await xdb.recall()
        found = await xdb.recall_by_concept(HONESTY)

    scored = [sorted(step.concept_activations) for step in steps]
    assert scored == [[HONESTY], [], [], [HONESTY], [HONESTY], [HONESTY], [HONESTY]]
    assert {step.tick for step in found} == {1, 4, 5, 6, 7}


async def test_a_lens_of_ones_own_is_asked(tmp_path: Path) -> None:
    """000-R029: any object that scores a text; no pack is needed."""

    class Shouting:
        name = "shouting"

        def score(self, moment: Moment) -> Mapping[str, float]:
            return {"own/lens::loud": 1.0} if moment.text.isupper() else {}

    async with XDB(tmp_path, "be", lenses=[Shouting()]) as xdb:
        assert xdb.activations("STOP") == {"own/lens::loud": 1.0}
        assert xdb.activations("stop") == {}


async def test_events_are_tagged_by_the_lenses(tmp_path: Path) -> None:
    """000-R016: once per event, however often it is delivered."""
    root = tmp_path / "xdb"
    root.mkdir()
    small_pack(tmp_path).rename(root / "concepts.pack")

    async with connect(tmp_path / "a.db", experience=root, tracking=False) as client:
        session = await client.start("s1", system_prompt="")
        await session.end_turn(TRUE, user="Was he honest?")
    async with XDB(root, "be", create=False) as xdb:
        rows = await xdb.experience_log.sql(
            "SELECT tag_id, source, event_id, count(*) FROM tag_applications GROUP BY ALL"
        )
        found = await xdb.recall(tags=[HONESTY], session_id="s1")

    assert [row[:2] for row in rows.rows] == [(HONESTY, "auto")]
    assert rows.rows[0][3] == 1
    assert [step.content for step in found] == [TRUE]


async def test_documents_are_read_from_the_folder(tmp_path: Path) -> None:
    """000-R170, 000-R151, 000-R199: they are kept in the core store."""
    folder = tmp_path / "xdb" / "documents" / "policies"
    folder.mkdir(parents=True)
    (folder / "privacy.md").write_text("Leave names out.", encoding="utf-8")
    store = await open_store(f"sqlite:///{tmp_path}/a.db")
    try:
        async with XDB(tmp_path / "xdb", "be") as xdb:
            with pytest.raises(Incorrect, match="call use_documents"):
                await xdb.list_documents()
            await xdb.use_documents(store)

            document = await xdb.get_document("policies/privacy.md")
            assert document is not None
            assert document.doc_type is DocumentType.TRIBAL_POLICY
            assert await xdb.search_documents("names") == [document]
            assert await xdb.list_documents(DocumentType.SPECIFICATION) == []
            assert (await xdb.get_state())["document_count"] == 1
    finally:
        await store.close()


async def test_a_bad_pack_leaves_nothing_open(tmp_path: Path) -> None:
    """A pack comes from others: opening the experience with it fails with a clear error."""
    bad = tmp_path / "bad.pack"
    bad.write_text("not a pack", encoding="utf-8")
    before = asyncio.all_tasks()

    with pytest.raises(Exception, match=r"bad\.pack"):
        await XDB(tmp_path / "x", "be", bad).__aenter__()

    assert asyncio.all_tasks() == before
    async with XDB(tmp_path / "x", "be") as xdb:
        with pytest.raises(Incorrect, match="there is no concept pack"):
            await xdb.browse_concepts()


async def test_all_examples_of_a_bud_are_returned(
    xdb: XDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-R134, 000-R168: however many there are, and more than one answer of the log holds."""
    monkeypatch.setattr(index, "LIMIT_MAX", 70)
    steps = [
        NewTimestep(timestamp=n, event_type=EventType.OUTPUT, content=f"{n}") for n in range(150)
    ]
    await xdb.experience_log.append("long", steps)
    bud = await xdb.create_bud_tag("irony", "says the opposite")
    await xdb.tag_index.apply(bud.id, choose_target("long", tick_range=(1, 150)))

    examples = await xdb.get_bud_examples(bud.id)

    assert [step.tick for step in examples] == list(range(1, 151))
    assert len(await xdb.tag_index.get_bud_examples(bud.id, limit=3, offset=149)) == 1


async def test_only_buds_with_examples_are_submitted(xdb: XDB) -> None:
    """000-R092: a submission without evidence is a mistake, which is said at once."""
    bud = await xdb.create_bud_tag("irony", "says the opposite")
    entity = await xdb.create_entity_tag("Ada", "person")

    with pytest.raises(NotFound, match="no examples"):
        await xdb.windows.submit_graft(bud.id, "graft-1")
    with pytest.raises(Incorrect, match="not a bud"):
        await xdb.windows.submit_graft(entity.id, "graft-1")


async def test_an_empty_comment_is_refused(xdb: XDB) -> None:
    """000-R164: it would say nothing to whoever reads it later."""
    with pytest.raises(Incorrect, match="empty"):
        await xdb.comment(" \n", timestep_id="ts-s-1")


async def test_tags_of_a_range_of_any_length_are_found(xdb: XDB) -> None:
    """000-A09: on timesteps too, of a session whose id looks like a step of another one."""
    step = NewTimestep(timestamp=1, event_type=EventType.OUTPUT)
    await xdb.experience_log.append("s", [step], first_tick=900)
    await xdb.experience_log.append("s-7", [step] * 8)
    for identifier in ("ts-s-2", "ts-s-900", "ts-s-7-8"):
        await xdb.tag("odd", timestep_id=identifier)

    async def found(session: str, ticks: tuple[int, int]) -> list[str]:
        log = xdb.experience_log
        rows = await log.get_tags_for_range(session, ticks, event_ids=(), limit=9)
        return sorted(str(application.timestep_id) for _, application in rows)

    assert await found("s", (1, 2**53)) == ["ts-s-2", "ts-s-900"]
    assert await found("s", (8, 899)) == []
    assert await found("s-7", (8, 8)) == ["ts-s-7-8"]
