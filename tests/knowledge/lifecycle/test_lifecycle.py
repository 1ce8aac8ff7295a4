"""From transcripts to notes and to the archive: once, in order, and never by surprise."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from ctxmgr.app import open_store
from ctxmgr.core.model import AnswerDone, AnswerPart, Charge, Request, Stop, TextDelta
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Conflict, CtxmgrError, Denied, Incorrect
from ctxmgr.knowledge.config import ExtractionTrigger, LifecycleConfig
from ctxmgr.knowledge.lifecycle.draft import NotesDraft
from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle, LifecycleStep
from ctxmgr.knowledge.lifecycle.liveness import (
    GoneReference,
    ProjectReference,
    ReferenceKind,
    mark_gone,
)
from ctxmgr.knowledge.lifecycle.prune import MemoryPruner, eviction_score
from ctxmgr.knowledge.lifecycle.schedule import CONDENSE, Schedule, due_times
from ctxmgr.knowledge.notes.note import read_note
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from tests.knowledge.lifecycle.notes_folders import (
    AT,
    DAY_MS,
    conversation,
    folder,
    keep,
    texts,
)

WEDNESDAY = date(2026, 5, 20)
SUNDAY = date(2026, 5, 24)
MEMORY = "knowledge/memory/MEMORY.md"

SAID = (
    ("user", "Why does the export fail?"),
    ("agent", "Turns out the gateway gives up after 30 s. Let's use a queue for exports."),
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(tmp_path / "agent.db") as opened:
        yield opened


@pytest.fixture
def notes(tmp_path: Path) -> NotesFolder:
    return folder(tmp_path)


def lifecycle(notes: NotesFolder, store: Store, **config: object) -> Lifecycle:
    return Lifecycle(notes, store=store, config=LifecycleConfig(**config))  # type: ignore[arg-type]


async def test_extracting_twice_adds_nothing_twice(notes: NotesFolder, store: Store) -> None:
    """002-R184, 002-R185: also if a person reworded what was added meanwhile."""
    path = keep(notes, conversation(*SAID))
    door = lifecycle(notes, store)

    first = await door.extract([path])
    before = texts(notes)
    memory = notes.read(MEMORY).text
    again = await door.extract([path])
    replayed = await door.replay()
    notes.write(MEMORY, memory.replace("gives up", "times out"), replacing=memory)
    reworded = await door.extract([path])

    assert {"knowledge/journal/2026-05-20.md", MEMORY} <= set(first.paths)
    assert (again.paths, again.diff, replayed.paths, reworded.paths) == ((), "", (), ())
    assert {**before, MEMORY: notes.read(MEMORY).text} == texts(notes)
    assert "2026-05-20: Turns out the gateway times out after 30 s. ^" in notes.read(MEMORY).text


async def test_notes_have_frontmatter_and_provenance(notes: NotesFolder, store: Store) -> None:
    """002-R178, 002-R179, 002-R183: what is written passes the checks of its type."""
    path = keep(notes, conversation(*SAID))
    await lifecycle(notes, store).extract([path])

    memory = notes.read(MEMORY)
    journal = notes.read("knowledge/journal/2026-05-20.md")
    session = conversation(*SAID).head.session_id
    assert memory.type == "memory"
    assert memory.frontmatter["line_count"] == len(memory.text.splitlines())
    assert f"^{session.removeprefix('ses_')}-2-" in memory.text
    assert journal.frontmatter["sessions"] == [session]
    assert journal.type == "journal"


async def test_pending_transcripts_are_extracted_in_order(notes: NotesFolder, store: Store) -> None:
    """002-R176, 002-R185: by request, what was not extracted by this version, oldest first."""
    later = keep(notes, conversation(*SAID, session="b", at=AT + DAY_MS))
    earlier = keep(notes, conversation(("agent", "Turns out it was DNS, again."), session="a"))
    door = lifecycle(notes, store, extraction_trigger=ExtractionTrigger.MANUAL)
    await door.session_ended(later)
    assert texts(notes) == {}

    assert await door.pending() == [earlier, later]
    await door.extract()

    memory = notes.read(MEMORY).text
    assert await door.pending() == []
    assert memory.index("DNS") < memory.index("gateway")


async def test_extraction_runs_when_a_session_ends(notes: NotesFolder, store: Store) -> None:
    """002-R176, 002-R214: the default."""
    path = keep(notes, conversation(*SAID))

    await lifecycle(notes, store).session_ended(path)

    assert MEMORY in texts(notes)


STEPS: dict[str, Callable[[Lifecycle, bool], Awaitable[LifecycleStep]]] = {
    "extract": lambda door, dry: door.extract(dry_run=dry),
    "replay": lambda door, dry: door.replay(dry_run=dry),
    "daily": lambda door, dry: door.condense("daily", day=WEDNESDAY, dry_run=dry),
    "weekly": lambda door, dry: door.condense("weekly", day=SUNDAY, dry_run=dry),
    "monthly": lambda door, dry: door.condense("monthly", day=SUNDAY, dry_run=dry),
    "prune": lambda door, dry: door.prune(day=date(2027, 5, 1), dry_run=dry),
    "archive": lambda door, dry: door.archive(["knowledge/reference/facts.md"], dry_run=dry),
    "nightly": lambda door, dry: door.nightly(SUNDAY, dry_run=dry),
}


@pytest.mark.parametrize("name", STEPS)
async def test_a_dry_run_is_the_real_run(
    name: str, notes: NotesFolder, store: Store, tmp_path: Path
) -> None:
    """002-R170: what a dry run prints, as a patch, makes the notes that a real run makes."""
    door = lifecycle(notes, store)
    await door.extract(
        [keep(notes, conversation(*SAID, ("user", "Remember that the limit is 30 s.")))]
    )
    keep(notes, conversation(("user", "Hello"), ("agent", "We decided to wait."), session="s2"))
    before = texts(notes)

    dry = await STEPS[name](door, True)
    assert texts(notes) == before
    real = await STEPS[name](door, False)

    assert (dry.diff, dry.paths, dry.done) == (real.diff, real.paths, real.done)
    patched = tmp_path / "patched"
    for path, text in before.items():
        (patched / path).parent.mkdir(parents=True, exist_ok=True)
        (patched / path).write_text(text)
    if dry.diff:
        await asyncio.to_thread(
            subprocess.run,
            ["git", "apply", "-"],
            input=dry.diff,
            text=True,
            cwd=patched,
            check=True,
        )
    after = {
        file.relative_to(patched).as_posix(): file.read_text() for file in patched.rglob("*.md")
    }
    assert after == texts(notes)
    assert (name == "monthly") or real.paths


async def test_the_daily_summary_completes_the_journal(notes: NotesFolder, store: Store) -> None:
    """002-R188, 002-R243: nothing without transcripts, and nothing twice."""
    door = lifecycle(notes, store)
    assert (await door.condense("daily", day=WEDNESDAY)).paths == ()
    keep(notes, conversation(*SAID))

    first = await door.condense("daily", day=WEDNESDAY)
    second = await door.condense("daily", day=WEDNESDAY)

    assert first.paths == ("knowledge/journal/2026-05-20.md",)
    assert second.paths == ()


async def test_the_weekly_rollup_distils_journals(notes: NotesFolder, store: Store) -> None:
    """002-R189, 002-R043, 002-R044: dated entries, stale ones archived, below the cap, once."""
    door = lifecycle(notes, store)
    assert (await door.condense("weekly", day=SUNDAY)).paths == ()
    stale = "---\ntype: memory\n---\n\n## Active Context\n\n- 2026-01-01: an old plan\n"
    notes.write(MEMORY, stale, replacing=None)
    keep(notes, conversation(*SAID))
    await door.condense("daily", day=WEDNESDAY)

    await door.condense("weekly", day=SUNDAY)
    memory = notes.read(MEMORY).text
    again = await door.condense("weekly", day=SUNDAY)

    assert "- 2026-05-20: Sessions: 14:32 Why does the export fail?" in memory
    assert "an old plan" not in memory
    assert "2026-01-01: an old plan" in texts(notes)["archive/memory/MEMORY.md"]
    assert again.paths == ()


def memory_of(entries: list[str]) -> str:
    lines = "\n".join(f"- {entry}" for entry in entries)
    return f"---\ntype: memory\n---\n\n## Key Decisions\n\n{lines}\n"


async def test_memory_is_pruned_above_the_cap_only(notes: NotesFolder) -> None:
    """002-R192, 002-R195: covered, redundant, then the oldest; nothing that left it is lost."""
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(60)]
    entries = [f"{day}: decision about subject{n} and matter{n}" for n, day in enumerate(days)]
    entries.append("2026-05-01: decision about subject5 and matter5")
    notes.write(MEMORY, memory_of(entries), replacing=None)
    covered = "---\ntype: reference\n---\n\n- decision about subject7 and matter7\n"
    notes.write("knowledge/reference/r.md", covered, replacing=None)
    draft = NotesDraft(notes)
    pruner = MemoryPruner(draft, today=date(2026, 5, 2))

    assert pruner.prune_memory(cap=1_000) == []
    done = pruner.prune_memory(cap=60)

    text = draft.get(MEMORY) or ""
    assert len(text.splitlines()) <= 60
    assert done[0] == "another note has it: decision about subject7 and matter7"
    assert done[1].startswith("a newer entry says the same: decision about subject5")
    assert "2026-05-01: decision about subject5" in text
    archived = draft.get("archive/memory/MEMORY.md") or ""
    left = [entry for entry in entries if entry not in text]
    kept = [entry for entry in left if entry in archived]
    assert len(kept) == len(left) - 1
    assert kept == sorted(kept)


async def test_entries_that_contradict_each_other_are_not_the_same(notes: NotesFolder) -> None:
    """002-R192, 002-R195: nor are a person's own, which have no date; repeats are archived."""
    same = "deploy the billing service to the production cluster on a Friday"
    entries = [
        f"2026-05-01: we never {same}",
        f"2026-05-02: we always {same}",
        f"we always {same} evening",
        f"2026-05-03: we always {same} night",
    ]
    notes.write(MEMORY, memory_of(entries), replacing=None)
    draft = NotesDraft(notes)
    cap = len(memory_of(entries).splitlines())

    done = MemoryPruner(draft, today=date(2026, 5, 4)).prune_memory(cap=cap - 1)

    text, archived = draft.get(MEMORY) or "", draft.get("archive/memory/MEMORY.md") or ""
    assert done[0].startswith("a newer entry says the same: we always")
    assert not any(each.startswith("a newer") for each in done[1:])
    assert entries[1] in archived
    assert entries[2] in text
    assert all(entry in text or entry in archived for entry in entries)


async def test_old_journals_move_to_the_archive(notes: NotesFolder) -> None:
    """002-R193, 002-R048: the day is that of the name, and the 90th day stays."""
    for day in ("2026-02-18", "2026-02-19"):
        notes.write(f"knowledge/journal/{day}.md", "- x\n", replacing=None)
    draft = NotesDraft(notes)

    moved = MemoryPruner(draft, today=WEDNESDAY).prune_journals(retention_days=90)

    assert moved == [("knowledge/journal/2026-02-18.md", "archive/journal/2026-02-18.md")]
    draft.apply()
    assert sorted(texts(notes)) == [
        "archive/journal/2026-02-18.md",
        "knowledge/journal/2026-02-19.md",
    ]


def test_scores_halve_in_two_weeks() -> None:
    """002-R194, 002-A27: an unreferenced note counts as referenced once."""
    assert eviction_score(age_days=14, references=1, relevance=1) == pytest.approx(0.497, abs=0.01)
    assert eviction_score(age_days=92, references=0, relevance=1) > 0.01
    assert eviction_score(age_days=93, references=0, relevance=1) < 0.01
    assert eviction_score(age_days=93, references=3, relevance=1) > 0.01


async def test_what_nobody_needs_is_archived(notes: NotesFolder) -> None:
    """002-R194, 002-R195, 002-A27: identity, memory, indexes, topics and pinned notes stay."""
    old = "---\nupdated: 2025-01-01\n---\n\ntext\n"
    kept = {
        "knowledge/identity/SOUL.md": old,
        MEMORY: old,
        "knowledge/people/_index.md": old,
        "knowledge/reference/pinned.md": old.replace("updated", "pinned: true\nupdated"),
        "knowledge/reference/new.md": old.replace("2025-01-01", "2026-05-01"),
        "topics/mail.md": old + "\nSee [[linked]].\n",
    }
    for path, text in {**kept, "knowledge/reference/gone.md": old}.items():
        notes.write(path, text, replacing=None)
    draft = NotesDraft(notes)

    evicted = MemoryPruner(draft, today=WEDNESDAY).score_and_evict()
    draft.apply()

    assert [each.path for each in evicted] == ["knowledge/reference/gone.md"]
    assert texts(notes) == {**kept, "archive/reference/gone.md": old}
    assert notes.read("archive/reference/gone.md").text == old


async def test_the_month_lists_what_is_dormant(notes: NotesFolder, store: Store) -> None:
    """002-R190: journals over 90 days are archived, projects and people reviewed."""
    notes.write("knowledge/journal/2026-01-01.md", "- x\n", replacing=None)
    old = "---\nupdated: 2026-01-01\n---\n"
    notes.write("knowledge/people/anna.md", old, replacing=None)

    step = await lifecycle(notes, store).condense("monthly", day=SUNDAY)

    assert "archived: knowledge/journal/2026-01-01.md" in step.done
    assert "review: knowledge/people/anna.md was not updated for 143 days" in step.done


async def test_somebody_elses_edit_is_left_alone(notes: NotesFolder) -> None:
    """PG-32: a person who saved meanwhile keeps their text, and the conflict is reported."""
    notes.write(MEMORY, "one\n", replacing=None)
    draft = NotesDraft(notes)
    draft.put(MEMORY, "two\n")
    draft.put("knowledge/reference/a.md", "new\n")
    notes.write(MEMORY, "mine\n", replacing="one\n")

    applied = draft.apply()

    assert (applied.paths, applied.conflicts) == (("knowledge/reference/a.md",), (MEMORY,))
    assert notes.read(MEMORY).text == "mine\n"


async def test_nothing_leaves_a_note_before_it_is_in_the_other(notes: NotesFolder) -> None:
    """002-R195: if the archive cannot be written, a moved note and MEMORY.md stay as they were."""
    note, memory = "knowledge/reference/a.md", memory_of(["2026-01-01: one", "2026-01-02: two"])
    notes.write(note, "text\n", replacing=None)
    notes.write(MEMORY, memory, replacing=None)
    draft = NotesDraft(notes)
    draft.move(note, "archive/reference/a.md")
    assert MemoryPruner(draft, today=WEDNESDAY).prune_memory(cap=len(memory.splitlines()) - 1)
    taken = ("archive/reference/a.md", "archive/memory/MEMORY.md")
    for path in taken:
        notes.write(path, "mine\n", replacing=None)

    applied = draft.apply()

    assert applied.paths == ()
    assert set(applied.conflicts) == {note, MEMORY, *taken}
    assert texts(notes) == {note: "text\n", MEMORY: memory, **dict.fromkeys(taken, "mine\n")}


async def test_of_two_processes_one_runs_a_task(
    notes: NotesFolder, store: Store, tmp_path: Path
) -> None:
    """002-R170, 002-R216: also if both try at the same moment."""
    keep(notes, conversation(*SAID, at=AT - DAY_MS))
    now = AT
    async with await open_store(tmp_path / "agent.db") as other:
        doors = [lifecycle(notes, store), lifecycle(notes, other)]
        results = await asyncio.gather(*(door.run_due(now=now) for door in doors))
        again = await doors[0].run_due(now=now)

    steps = [step.step for steps in results for step in steps]
    assert sorted(steps) == ["nightly", "prune"]
    assert again == []
    assert "knowledge/journal/2026-05-19.md" in texts(notes)


async def test_a_claim_of_a_dead_process_expires(store: Store, tmp_path: Path) -> None:
    """A process that was killed while it ran a task does not stop it for good."""
    schedule = Schedule(store, tmp_path)

    first = await schedule.claim(CONDENSE, AT, now=AT)
    soon = await schedule.claim(CONDENSE, AT, now=AT + 60_000)
    later = await schedule.claim(CONDENSE, AT, now=AT + 3_600_000)
    assert first is not None
    assert later is not None
    await schedule.finish(first, now=AT + 3_600_001)

    assert soon is None
    assert (await schedule.last_runs())[CONDENSE].state == "running"
    await schedule.finish(later, now=AT + 3_600_002)
    assert await schedule.claim(CONDENSE, AT, now=AT + 9_000_000) is None


async def test_a_rollup_takes_entries_and_not_the_list_of_sessions(
    notes: NotesFolder, store: Store
) -> None:
    """002-R189: the frontmatter of a journal has bullets, too."""
    keep(notes, conversation(*SAID))
    door = lifecycle(notes, store)
    await door.extract()

    await door.condense("weekly", day=SUNDAY)

    assert "Why does the export fail?" in notes.read(MEMORY).text
    assert ": ses_" not in notes.read(MEMORY).text


async def test_missed_nights_are_made_up_for(notes: NotesFolder, store: Store) -> None:
    """002-R216, 002-A30: a laptop that slept for three days has three journals afterwards."""
    door = lifecycle(notes, store)
    await door.run_due(now=AT)
    for number in range(3):
        keep(notes, conversation(*SAID, session=f"s{number}", at=AT + number * DAY_MS))

    steps = await door.run_due(now=AT + 3 * DAY_MS)

    assert [step.step for step in steps].count("nightly") == 3
    assert {f"knowledge/journal/2026-05-{day}.md" for day in (20, 21, 22)} <= set(texts(notes))


async def test_transcripts_are_never_rotated_away(notes: NotesFolder, store: Store) -> None:
    """PG-30: half a year later, everything that was said is there, byte for byte."""
    door = lifecycle(notes, store)
    await door.run_due(now=AT)
    keep(notes, conversation(*SAID))
    raw = notes.layout.raw
    before = {path: path.read_bytes() for path in raw.rglob("*.md")}

    for days in (1, 90, 180):
        await door.run_due(now=AT + days * DAY_MS)

    assert before
    assert {path: path.read_bytes() for path in raw.rglob("*.md")} == before


def test_schedules_are_settings() -> None:
    """002-R211, 002-R212, 002-R176: daily at 23:00, Sundays at midnight, hourly if asked for."""
    midnight = AT - AT % DAY_MS
    hourly = LifecycleConfig(extraction_trigger=ExtractionTrigger.HOURLY)

    due = due_times(hourly, last={}, now=AT)

    assert due == sorted(due)
    assert {task: (at - midnight) // 60_000 for at, task in due} == {
        "condense": -60,
        "prune": -3 * 24 * 60,
        "extract": 14 * 60,
        "commit": 14 * 60 + 30,
        "tag": 0,
    }
    with pytest.raises(Incorrect, match="is not a schedule"):
        due_times(LifecycleConfig(pruning_schedule="often"), last={}, now=AT)


async def test_a_failed_task_is_tried_again(
    notes: NotesFolder, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error is recorded and raised, and the task stays due."""
    door = lifecycle(notes, store)

    async def fail(*_: object, **__: object) -> LifecycleStep:
        raise Incorrect("no")

    with monkeypatch.context() as broken:
        broken.setattr(Lifecycle, "prune", fail)
        with pytest.raises(CtxmgrError):
            await door.run_due(now=AT)
    statuses = {status.task: status for status in await door.status(now=AT)}
    steps = await door.run_due(now=AT)

    assert statuses["prune"].last is not None
    assert statuses["prune"].last.state == "failed"
    assert statuses["prune"].due is not None
    assert "prune" in [step.step for step in steps]


TOPIC = "topics/mail.md"


async def test_changes_of_topics_wait_for_a_person(notes: NotesFolder, store: Store) -> None:
    """002-A35, 002-R005: a proposal shows its diff and origin, and changes nothing by itself."""
    notes.write(TOPIC, "old\n", replacing=None)
    review = lifecycle(notes, store).review

    proposal = await review.propose(
        TOPIC, "new\n", origin={"session": "s1"}, reason="asked in a mail", at=AT
    )
    same = await review.propose(TOPIC, "new\n", origin={"session": "s2"}, reason="", at=AT + 1)

    assert notes.read(TOPIC).text == "old\n"
    assert proposal.id == same.id
    assert [each.id for each in await review.waiting()] == [proposal.id]
    assert "-old\n+new\n" in proposal.diff
    assert same.origin == {"session": "s1"}
    accepted = await review.accept(proposal.id, at=AT + 2)
    assert (accepted.state, notes.read(TOPIC).text) == ("accepted", "new\n")
    assert await review.waiting() == []
    with pytest.raises(Incorrect, match="was accepted before"):
        await review.reject(proposal.id, at=AT + 3)


async def test_a_rejected_change_is_not_proposed_again(notes: NotesFolder, store: Store) -> None:
    """002-A35: saying no once is enough."""
    review = lifecycle(notes, store).review
    proposal = await review.propose(TOPIC, "new\n", origin={}, reason="", at=AT)
    await review.reject(proposal.id, at=AT)

    again = await review.propose(TOPIC, "new\n", origin={}, reason="", at=AT)

    assert again.state == "rejected"
    assert await review.waiting() == []
    assert texts(notes) == {}


async def test_a_note_that_changed_meanwhile_is_a_conflict(
    notes: NotesFolder, store: Store
) -> None:
    """002-A35: accepting never overwrites what the proposal did not see."""
    notes.write(TOPIC, "old\n", replacing=None)
    review = lifecycle(notes, store).review
    proposal = await review.propose(TOPIC, "new\n", origin={}, reason="", at=AT)
    notes.write(TOPIC, "mine\n", replacing="old\n")

    with pytest.raises(Conflict):
        await review.accept(proposal.id, at=AT)

    assert notes.read(TOPIC).text == "mine\n"
    assert len(await review.waiting()) == 1


async def test_a_proposal_made_from_an_older_note_does_not_undo_an_edit(
    notes: NotesFolder, store: Store
) -> None:
    """002-A35: an edit that came while a change was computed is a conflict, not part of it."""
    notes.write(TOPIC, "mine\n", replacing=None)
    review = lifecycle(notes, store).review

    proposal = await review.propose(TOPIC, "old\nnew\n", origin={}, reason="", at=AT, seen="old\n")

    assert "-mine" not in proposal.diff
    with pytest.raises(Conflict):
        await review.accept(proposal.id, at=AT)
    assert notes.read(TOPIC).text == "mine\n"


async def test_identity_is_never_archived_by_a_command(notes: NotesFolder, store: Store) -> None:
    """002-A35: nor is a topic."""
    with pytest.raises(Incorrect, match="identity or topics"):
        await lifecycle(notes, store).archive([TOPIC])


async def test_files_of_an_adopted_folder_stay(notes: NotesFolder, store: Store) -> None:
    """002-A35, 002-R195: neither a command nor age moves or marks what is not below knowledge/."""
    adopted = NotesFolder(replace(notes.layout, adopted=True))
    old = "---\nupdated: 2025-01-01\n---\n\nSee `src/export.py`.\n"
    own = {"CLAUDE.md": old, "ideas.md": old, "People/ada.md": old}
    for path, text in {**own, "knowledge/reference/gone.md": old}.items():
        adopted.write(path, text, replacing=None)
    door = lifecycle(adopted, store)
    reference = ProjectReference(ReferenceKind.PATH, "src/export.py", 1)
    gone = [
        GoneReference(note=path, reference=reference, commit="c", day="2026-01-01", summary="s")
        for path in own
    ]

    with pytest.raises(Incorrect, match="identity or topics"):
        await door.archive(["CLAUDE.md"])
    with pytest.raises(Denied, match=r"'ideas\.md' is a file of yours"):
        await door.archive(["ideas.md"])
    marked = mark_gone(NotesDraft(adopted), gone)
    await door.prune(day=WEDNESDAY)

    assert marked == []
    assert texts(adopted) == {**own, "archive/reference/gone.md": old}


async def test_what_is_archived_stays_readable(notes: NotesFolder, store: Store) -> None:
    """002-R195: under archive/, with its category, and out of what loads by itself."""
    path = "knowledge/reference/a.md"
    notes.write(path, "text\n", replacing=None)

    await lifecycle(notes, store).archive([path])

    assert notes.paths() == []
    assert notes.paths(archived=True) == ["archive/reference/a.md"]
    assert read_note(path, notes.read("archive/reference/a.md").text).body == "text\n"


class Recording:
    """A model that answers with nothing to add, and keeps what it was asked."""

    name, form, unique_ids = "m1", "text", True

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        self.asked.append(request)
        yield TextDelta(text="[]")
        charge = Charge(purpose=request.purpose, model=self.name, usage=None)
        yield AnswerDone(reply={}, stop=Stop.DONE, charge=charge)


async def test_a_model_is_asked_within_its_budget(notes: NotesFolder, store: Store) -> None:
    """002-R191: a day's conversations may be long; a question to a model is not."""
    for number in range(3):
        said = ("agent", f"Turns out disk {number} was full. " + "More was said. " * 800)
        keep(notes, conversation(said, session=f"s{number}"))
    model = Recording()
    door = Lifecycle(notes, store=store, config=LifecycleConfig(), model=model)

    await door.condense("daily", day=WEDNESDAY, dry_run=True)
    notes.write("knowledge/journal/2026-05-20.md", "# Day\n\n- It rained.\n", replacing=None)
    await door.condense("weekly", day=SUNDAY, dry_run=True)

    daily, weekly = model.asked
    assert (daily.output_tokens_max, weekly.output_tokens_max) == (500, 2_000)
    assert len(json.dumps(daily.payload)) < 8_000 + 1_000
