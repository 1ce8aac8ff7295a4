"""What rules and models find in transcripts."""

import json

import pytest

from ctxmgr.core.model import Flow, Question
from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.lifecycle.extract import EXTRACTORS
from ctxmgr.knowledge.lifecycle.extractors.decisions import DecisionExtractor
from ctxmgr.knowledge.lifecycle.extractors.extractor import (
    Extraction,
    ExtractionSource,
    Extractor,
    read_entries,
)
from ctxmgr.knowledge.lifecycle.extractors.facts import FactExtractor
from ctxmgr.knowledge.lifecycle.extractors.journal import JournalExtractor
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import KnowledgeChange
from ctxmgr.knowledge.lifecycle.extractors.lessons import LessonExtractor
from ctxmgr.knowledge.lifecycle.extractors.people import PeopleExtractor
from ctxmgr.knowledge.lifecycle.extractors.procedures import ProcedureExtractor
from ctxmgr.knowledge.transcripts.transcript import ToolLine
from tests.knowledge.lifecycle.notes_folders import conversation


def source(*said: tuple[str, str], projects: tuple[str, ...] = ()) -> ExtractionSource:
    return ExtractionSource(
        path="raw/conversations/x.md", transcript=conversation(*said), projects=projects
    )


def found(
    extractor: Extractor, *said: tuple[str, str], projects: tuple[str, ...] = ()
) -> list[tuple[str, str, str]]:
    changes = extractor.extract(source(*said, projects=projects))
    return [(change.path, change.section, change.content) for change in changes]


def test_six_extractors_are_registered_and_versioned() -> None:
    """002-R177, 002-R242: a replay says which version of which extractor ran."""
    assert [(each.name, each.version) for each in EXTRACTORS] == [
        ("decisions", 1),
        ("lessons", 1),
        ("people", 1),
        ("procedures", 1),
        ("facts", 1),
        ("journal", 1),
    ]


def test_decisions_go_to_their_project() -> None:
    """002-R178, 002-R187, 002-A28: general ones go to MEMORY.md and are not dropped."""
    changes = found(
        DecisionExtractor(),
        ("user", "Should we use Redis? If we decided on Redis we would need a server."),
        ("agent", "Let's use SQLite for the billing export. It needs no server."),
        ("user", "We decided to ship on Fridays."),
        projects=("billing",),
    )

    assert changes == [
        (
            "knowledge/projects/billing/context.md",
            "Key Decisions",
            "Let's use SQLite for the billing export.",
        ),
        ("knowledge/memory/MEMORY.md", "Key Decisions", "We decided to ship on Fridays."),
    ]


def test_lessons_go_to_memory() -> None:
    """002-R179: what somebody says they learned, not everything that was said."""
    changes = found(
        LessonExtractor(),
        ("agent", "I ran the tests. The root cause was a stale lock file. All tests pass."),
        ("user", "Lesson: never deploy without a backup."),
    )

    assert changes == [
        (
            "knowledge/memory/MEMORY.md",
            "Lessons Learned",
            "The root cause was a stale lock file.",
        ),
        (
            "knowledge/memory/MEMORY.md",
            "Lessons Learned",
            "Lesson: never deploy without a backup.",
        ),
    ]


def test_people_get_files_of_their_own() -> None:
    """002-R180: names come from text, so they become safe file names."""
    changes = found(
        PeopleExtractor(),
        ("user", "Anna Meier is our new designer. Bob prefers short mails."),
        ("agent", "The server is our bottleneck. This is the default."),
    )

    assert changes == [
        ("knowledge/people/anna-meier.md", "Context", "Anna Meier is our new designer."),
        ("knowledge/people/bob.md", "Communication", "Bob prefers short mails."),
    ]


def test_numbered_steps_are_a_procedure() -> None:
    """002-R181: a list with a title, and at least three steps."""
    changes = found(
        ProcedureExtractor(),
        ("agent", "How to release:\n\n1. Run the tests.\n2. Tag the commit.\n3. Push the tag.\n"),
        ("agent", "Two things:\n1. this\n2. that"),
    )

    assert changes == [
        (
            "knowledge/procedures/how-to-release.md",
            "Steps",
            "Run the tests.\nTag the commit.\nPush the tag.",
        )
    ]


def test_repeated_commands_are_a_procedure() -> None:
    """002-R181: a command that succeeded three times is how things are done here."""
    line = ToolLine.of("bash", "command=make test", "ok: passed")
    listing = ToolLine.of("bash", "command=ls", "ok: a")
    transcript = conversation(("agent", [line, listing]), ("agent", [line, listing, line, listing]))

    (change,) = ProcedureExtractor().extract(ExtractionSource(path="x.md", transcript=transcript))

    assert (change.path, change.content) == ("knowledge/procedures/commands.md", "`make test`")


def test_facts_go_to_reference() -> None:
    """002-R182: statements with a value that can be looked up; passing states are not facts."""
    changes = found(
        FactExtractor(),
        ("agent", "The staging database is at `db.internal:5432`. The build is running now."),
        ("user", "Remember that the API key rotates on Mondays."),
        ("agent", "The test is fine."),
    )

    assert [content for _, _, content in changes] == [
        "The staging database is at `db.internal:5432`.",
        "Remember that the API key rotates on Mondays.",
    ]
    assert {path for path, _, _ in changes} == {"knowledge/reference/facts.md"}


def test_a_session_is_one_line_of_the_journal() -> None:
    """002-R183, 002-A31: in the journal of the day on which it started."""
    changes = found(
        JournalExtractor(),
        ("user", "Why does the export fail?"),
        ("agent", "I looked. The gateway gives up after 30 s."),
    )

    assert changes == [
        (
            "knowledge/journal/2026-05-20.md",
            "Sessions",
            "14:32 Why does the export fail?: The gateway gives up after 30 s.",
        )
    ]


def test_code_and_quotes_are_not_statements() -> None:
    """Text that was pasted says nothing about what was decided."""
    pasted = "```\nWe decided to delete everything.\n```\n> We decided to give up."

    assert found(DecisionExtractor(), ("user", pasted)) == []


def answered(flow: Flow[Extraction], answer: str) -> tuple[Question, Extraction]:
    question = next(flow)
    with pytest.raises(StopIteration) as ended:
        flow.send(answer)
    extraction = ended.value.value
    assert isinstance(extraction, Extraction)
    return question, extraction


def test_a_model_is_shown_6000_characters_and_asked_for_json() -> None:
    """002-R187: the bound holds for any transcript."""
    flow = DecisionExtractor().ask(source(("user", "We talk. " * 10_000), projects=("billing",)))

    question, extraction = answered(
        flow,
        "Sure: "
        + json.dumps(
            [
                {"decision": "Use SQLite", "context": "no server", "project": "billing"},
                {"decision": "Ship on Fridays", "project": "general"},
                {"decision": "Hire", "project": "../../etc"},
            ]
        ),
    )

    assert len(question.text.split("---\n")[1]) <= 6_000
    assert [change.path for change in extraction.changes] == [
        "knowledge/projects/billing/context.md",
        "knowledge/memory/MEMORY.md",
        "knowledge/memory/MEMORY.md",
    ]
    assert extraction.changes[0].content == "Use SQLite (no server)"


@pytest.mark.parametrize(
    "answer", ["I cannot do that.", "[1, 2]", '[{"decision": 7}]', "[" * 5_000, '[{"x": "y"}]']
)
@pytest.mark.parametrize("extractor", EXTRACTORS, ids=lambda each: each.name)
def test_an_answer_that_cannot_be_read_is_kept(extractor: Extractor, answer: str) -> None:
    """002-A29: it changes nothing, except that the journal falls back to its rule."""
    _, extraction = answered(extractor.ask(source(("user", "Hello"))), answer)

    assert extraction.rejected == answer
    assert all(change.origin.extractor == "journal" for change in extraction.changes)


def test_entries_are_bounded() -> None:
    """A model that answers with thousands of entries does not fill the notes."""
    entries = read_entries(json.dumps([{"a": "x" * 9_999}] * 9_999), fields=("a",))

    assert len(entries) == 50
    assert len(entries[0]["a"]) == 2_000
    with pytest.raises(Incorrect):
        read_entries("[{}]", fields=("a",))


def test_changes_know_where_they_come_from() -> None:
    """002-R186, 002-A35: path, action, section, content, and the turn it was said in."""
    (change,) = LessonExtractor().extract(
        source(("user", "Hello there, you."), ("agent", "Turns out the disk was full."))
    )

    assert isinstance(change, KnowledgeChange)
    assert (change.action, change.section) == ("appended", "Lessons Learned")
    origin = change.origin
    assert (origin.transcript, origin.turn) == ("raw/conversations/x.md", 2)
    assert (origin.extractor, origin.version) == ("lessons", 1)
