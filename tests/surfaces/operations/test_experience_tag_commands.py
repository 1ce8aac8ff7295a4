"""`ctxmgr experience`: tags, buds, concepts and documents, on the command line and over HTTP."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ctxmgr import open_store
from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.xdb import XDB
from tests.components import need
from tests.experience.packs import PACK, small_pack
from tests.surfaces.http.servers import serving
from tests.surfaces.worked_sessions import json_of

HONESTY = f"{PACK}::Honesty"
WORDS = ("entity ", "physical_entity ", "abstraction ")
OFFSETS = ("00001740 03", "00001930 03", "00002137 03")


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The experience of one session of three steps, with a concept pack."""
    root = home / "xdb"
    root.mkdir()
    small_pack(home).rename(root / "concepts.pack")

    async def work() -> None:
        await (await open_store(f"sqlite:///{home}/a.db")).close()
        async with XDB(root, "be") as xdb:
            await xdb.start_session("s1")
            for word in ("one", "two", "three"):
                await xdb.record(EventType.OUTPUT, word)

    asyncio.run(work())
    monkeypatch.setenv("CTXMGR_EXPERIENCE", str(root))
    return root


def test_a_tag_is_applied_and_listed(ctxmgr: Callable[..., Result], folder: Path) -> None:
    """000-R155, 000-R156: a person tags what an agent did."""
    target = ("--session", "s1", "--ticks", "2-3")
    done = json_of(ctxmgr("experience", "tag", "odd", *target, "--json"))
    listed = json_of(ctxmgr("experience", "tags", "o*", "--json"))
    twice = ctxmgr("experience", "tag", "odd", "--timestep-id", "ts-s1-1", "--event-id", "e")

    assert done["application_id"].startswith("ta-")
    assert (done["tag"]["name"], done["tag"]["tag_type"]) == ("odd", "custom")
    assert listed["tags"] == [done["tag"]]
    assert twice.exit_code == 2
    assert "exactly one of timestep_id, event_id and ticks" in twice.output


def test_marks_of_a_range_are_listed(ctxmgr: Callable[..., Result], folder: Path) -> None:
    """000-R155, 000-R164: on a timestep, an event or a range, with their ticks."""

    async def work() -> None:
        async with XDB(folder, "be") as xdb:
            await xdb.start_session("s1")
            for word in ("four", "five"):
                await xdb.record(EventType.OUTPUT, word, event_id="answer")
            await xdb.tag("whole", event_id="answer")
            await xdb.tag("early", timestep_id="ts-s1-1")
            await xdb.tag("middle", tick_range=(2, 4))
            await xdb.comment("odd", tick_range=(3, 3))
            await xdb.comment("an answer", event_id="answer")

    asyncio.run(work())
    marks = json_of(ctxmgr("experience", "marks", "s1", "--json"))
    some = json_of(ctxmgr("experience", "marks", "s1", "--ticks", "3-4", "--json"))
    newest = json_of(ctxmgr("experience", "marks", "s1", "--limit", "1", "--json"))
    none = json_of(ctxmgr("experience", "marks", "unknown", "--json"))

    places = {mark["name"]: (mark["start_tick"], mark["end_tick"]) for mark in marks["tags"]}
    assert places == {"whole": (4, 5), "early": (1, 1), "middle": (2, 4)}
    assert (marks["last_tick"], marks["start_tick"], marks["end_tick"]) == (5, 1, 5)
    assert {comment["content"] for comment in marks["comments"]} == {"an answer", "odd"}
    assert {mark["name"] for mark in some["tags"]} == {"whole", "middle"}
    assert (len(newest["tags"]), len(newest["comments"])) == (1, 1)
    assert (none["last_tick"], none["tags"], none["comments"]) == (0, [], [])


@pytest.mark.parametrize(
    "wrong",
    [("--ticks", "5-1"), ("--ticks", "1-2001"), ("--ticks", f"1-{10**30}"), ("--limit", "0")],
)
def test_marks_are_bounded(
    ctxmgr: Callable[..., Result], folder: Path, wrong: tuple[str, str]
) -> None:
    """A caller cannot ask for all ticks at once."""
    result = ctxmgr("experience", "marks", "s1", "--folder", str(folder), *wrong)

    assert result.exit_code == 2, result.output


def test_a_comment_is_stored(ctxmgr: Callable[..., Result], folder: Path) -> None:
    """000-R164: its id can be looked up in SQL."""
    done = json_of(
        ctxmgr("experience", "comment", "It gave up", "--timestep-id", "ts-s1-3", "--json")
    )
    found = json_of(ctxmgr("experience", "sql", "--json", "SELECT id, content FROM comments"))

    assert found["rows"] == [{"id": done["comment_id"], "content": "It gave up"}]


def test_a_bud_goes_its_way(ctxmgr: Callable[..., Result], folder: Path) -> None:
    """000-R133, 000-R135, 000-R167: and a wrong step names the possible ones."""
    json_of(ctxmgr("experience", "tag", HONESTY, "--timestep-id", "ts-s1-1", "--json"))
    bud = json_of(ctxmgr("experience", "bud", HONESTY, "collecting", "--json"))
    wrong = ctxmgr("experience", "bud", HONESTY, "promoted")
    json_of(ctxmgr("experience", "bud", HONESTY, "ready", "--json"))

    assert bud["bud_status"] == "collecting"
    assert wrong.exit_code == 2
    assert "possible: abandoned, ready" in " ".join(wrong.output.split())
    ready = json_of(ctxmgr("experience", "buds", "--status", "ready", "--json"))
    assert [row["id"] for row in ready["buds"]] == [HONESTY]
    json_of(ctxmgr("experience", "bud", HONESTY, "abandoned", "--json"))
    back = json_of(ctxmgr("experience", "bud", HONESTY, "reverted", "--json"))
    assert back["tag_type"] == "concept"


def test_concepts_are_browsed(ctxmgr: Callable[..., Result], folder: Path) -> None:
    """000-R165, 000-R166: roots, children, and by name."""
    roots = json_of(ctxmgr("experience", "concepts", "--json"))
    below = json_of(ctxmgr("experience", "concepts", "--parent", f"{PACK}::Trait", "--json"))
    named = json_of(ctxmgr("experience", "concepts", "truth", "--json"))

    assert [row["name"] for row in roots["concepts"]] == ["Entity"]
    assert [row["name"] for row in below["concepts"]] == ["Deceit", "Honesty"]
    assert [row["id"] for row in named["concepts"]] == [HONESTY]


def test_documents_are_synchronised_and_listed(ctxmgr: Callable[..., Result], home: Path) -> None:
    """000-R170, 000-R199: no experience is needed for them."""
    (home / "docs/specs").mkdir(parents=True)
    (home / "docs/specs/format.md").write_text("One line each.", encoding="utf-8")
    store = ("--store", str(home / "a.db"))

    done = json_of(ctxmgr("experience", "sync-documents", str(home / "docs"), *store, "--json"))
    listed = json_of(ctxmgr("experience", "documents", "lines", *store, "--json"))

    assert done["added"] == ["specs/format.md"]
    assert [(row["path"], row["doc_type"]) for row in listed["documents"]] == [
        ("specs/format.md", "specification")
    ]


def test_a_pack_is_built_and_checked(
    ctxmgr: Callable[..., Result], home: Path, wordnet_folder: Path
) -> None:
    """000-R126: from WordNet's files; the licence is shown."""
    built = json_of(
        ctxmgr(
            *("experience", "build-pack", "--out", str(home / "w.pack")),
            *("--wordnet", str(wordnet_folder), "--json"),
        )
    )
    checked = json_of(ctxmgr("experience", "check-pack", str(home / "w.pack"), "--json"))

    assert built == checked
    assert built["concepts"] == 3
    assert "Princeton University" in built["licence"]


@pytest.fixture
def wordnet_folder(home: Path) -> Path:
    """The first three nouns of WordNet, in its own files."""
    need("wordnet")
    real, folder = Path("/usr/share/wordnet"), home / "wordnet"
    folder.mkdir()
    for part in ("noun", "verb"):
        for kind, wanted in (("data", OFFSETS), ("index", WORDS)):
            lines = (real / f"{kind}.{part}").read_text(encoding="utf-8").splitlines(keepends=True)
            kept = "".join(line for line in lines if line.startswith(("  ", *wanted)))
            (folder / f"{kind}.{part}").write_text(kept, encoding="utf-8")
    (folder / "cntlist.rev").write_text("", encoding="utf-8")
    return folder


def test_http_has_the_paths_of_the_rows(home: Path, folder: Path) -> None:
    """000-R179, 000-R180, 000-R181, 000-R182, 000-R183: typed results under /v1/xdb."""
    with serving(str(home / "a.db")) as server:
        applied = server.post("/v1/xdb/tag", tag="odd", session="s1", ticks="1-2")
        recalled = server.get("/v1/xdb/recall", session="s1", tag="odd")
        concepts = server.get("/v1/xdb/concepts", parent=f"{PACK}::Trait")
        server.post("/v1/xdb/bud", tag="odd", status="collecting")
        buds = server.get("/v1/xdb/buds", status="collecting")
        documents = server.get("/v1/xdb/documents", doc_type="specification")
        wrong = server.post("/v1/xdb/tag", tag="odd", session="s1")
        elsewhere = server.get("/v1/xdb/buds", folder="/etc")
        far = [
            server.post("/v1/xdb/tag", tag="odd", session="s1", ticks=f"1-{10**30}"),
            server.post("/v1/xdb/tag", tag="odd", session="s1", event_id="\0"),
            server.post("/v1/xdb/recall", ticks=f"1-{10**30}"),
        ]

    assert applied.json()["tag"]["name"] == "odd"
    assert [step["content"] for step in recalled.json()["steps"]] == ["one", "two"]
    assert [row["name"] for row in concepts.json()["concepts"]] == ["Deceit", "Honesty"]
    assert [row["name"] for row in buds.json()["buds"]] == ["odd"]
    assert documents.json() == {"documents": []}
    assert wrong.status_code == 400
    assert elsewhere.status_code == 400
    assert [answer.status_code for answer in far] == [400, 400, 400]
