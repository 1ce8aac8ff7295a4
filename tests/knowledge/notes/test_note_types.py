"""What every type of note has, and what is wrong with a note."""

from pathlib import Path

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.notes.layout import Category, Layout, archive_path, category_of, day_of
from ctxmgr.knowledge.notes.note import Note, read_note
from ctxmgr.knowledge.notes.note_types import NoteType, check_note, new_note

UPDATED = "2026-11-18T10:00:00Z"

RIGHT = {
    "knowledge/identity/SOUL.md": new_note(
        NoteType.IDENTITY, title="Soul", fields={"role": "soul", "updated": UPDATED}
    ),
    "knowledge/memory/MEMORY.md": new_note(
        NoteType.MEMORY, title="Memory", fields={"updated": UPDATED, "line_count": 12}
    ),
    "knowledge/journal/2026-11-18.md": new_note(
        NoteType.JOURNAL,
        title="Wednesday",
        fields={"date": "2026-11-18", "sessions": ["ses_0123abcd"]},
    ),
    "knowledge/projects/_active.md": new_note(
        NoteType.PROJECT_INDEX, title="Active projects", fields={"updated": UPDATED}
    ),
    "knowledge/projects/engine/context.md": new_note(
        NoteType.PROJECT_CONTEXT, title="Engine", fields={"project": "engine", "updated": UPDATED}
    ),
    "knowledge/people/ada.md": new_note(
        NoteType.PERSON,
        title="Ada",
        fields={"name": "Ada", "relationship": "friend", "updated": UPDATED},
    ),
    "knowledge/procedures/release.md": new_note(
        NoteType.PROCEDURE, title="Release", fields={"updated": UPDATED, "tags": ["ci"]}
    ),
    "knowledge/reference/git.md": new_note(
        NoteType.REFERENCE, title="Git", fields={"updated": UPDATED}
    ),
    "topics/mail.md": new_note(
        NoteType.TOPIC,
        title="Mail",
        fields={
            "triggers": [{"type": "pattern", "match": "mail"}],
            "subscriptions": ["knowledge/people/ada.md"],
            "activation": "gated",
            "priority": "high",
            "max_context_kb": 4,
        },
    ),
}


@pytest.mark.parametrize("path", RIGHT)
def test_a_note_of_every_type_can_be_made_and_is_right(path: str) -> None:
    """002-R038, 002-R040, 002-R045, 002-R049, 002-R050, 002-R051, 002-R052, 002-R057,
    002-A09.
    """
    assert check_note(read_note(path, RIGHT[path])) == ()


@pytest.mark.parametrize(
    ("path", "old", "new", "line", "severity", "message"),
    [
        ("knowledge/identity/SOUL.md", "role: soul", "role: ghost", 3, "error", "role is 'ghost'"),
        ("knowledge/identity/SOUL.md", "type: identity", "type: spirit", 2, "error", "one of"),
        ("knowledge/identity/SOUL.md", UPDATED, "yesterday", 4, "error", "ISO datetime"),
        ("knowledge/identity/SOUL.md", f"updated: {UPDATED}\n", "", 1, "warning", "updated"),
        ("knowledge/people/ada.md", "type: person", "type: topic", 2, "warning", "of type person"),
        ("knowledge/people/ada.md", "## Context", "", 7, "warning", "section Context"),
        ("knowledge/journal/2026-11-18.md", ": 2026-11-18", ": 2026-11-17", 3, "error", "file is"),
        ("knowledge/memory/MEMORY.md", "line_count: 12", "line_count: 3", 4, "warning", "are 12"),
        ("knowledge/memory/MEMORY.md", "# Memory", "# M\n- x", 7, "warning", "its date"),
        ("topics/mail.md", "activation: gated", "activation: soon", 6, "error", "auto, gated"),
        ("topics/mail.md", "priority: high", "priority: 7", 7, "error", "low, medium"),
        ("topics/mail.md", "max_context_kb: 4", "max_context_kb: -1", 8, "error", "above 0"),
        ("topics/mail.md", "## Instructions", "", 10, "warning", "section Instructions"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_remedy(
    path: str, old: str, new: str, *, line: int, severity: str, message: str
) -> None:
    """Each field has its values.

    Rows: 002-R038, 002-R041, 002-R044, 002-R053, 002-R054, 002-R055, 002-R056, 002-R058, 002-R060.
    """
    findings = check_note(Note(path, RIGHT[path].replace(old, new, 1)))

    assert [(each.line, each.severity) for each in findings if message in each.message] == [
        (line, severity)
    ], findings


def test_a_note_with_both_sides_of_a_merge_is_an_error() -> None:
    """002-R037: what git wrote in the middle of a merge is not what anybody noted."""
    both = "<<<<<<< HEAD\nPort 1.\n=======\nPort 2.\n>>>>>>> side\n"
    path = "knowledge/reference/ports.md"

    (found,) = check_note(Note(path, f"# Ports\n\n{both}"))

    assert (found.severity, found.line) == ("error", 3)
    assert "both sides of a merge" in found.message
    assert check_note(Note(path, f"# Merging\n\n```text\n{both}```\n")) == ()
    assert check_note(Note(path, "# Old headings\n\nPorts\n=======\n")) == ()


def test_a_topic_without_triggers_is_a_warning() -> None:
    """002-R076: it would never fire by itself, which may be meant."""
    (finding,) = check_note(
        Note("topics/a.md", "---\ntype: topic\n---\n## Instructions\n## Context Notes\n")
    )

    assert (finding.severity, finding.message) == ("warning", "triggers is missing")


@pytest.mark.parametrize(
    ("lines", "severities"), [(180, []), (181, ["warning"]), (220, ["warning"]), (221, ["error"])]
)
def test_a_long_memory_is_a_warning_and_then_an_error(lines: int, severities: list[str]) -> None:
    """002-A04, 002-R041, 002-R075: the core memory is in every prompt, so its length is bounded."""
    titles = "## Key Decisions\n## Lessons Learned\n## Active Context\n"
    text = titles + "x\n" * (lines - 3)

    findings = check_note(Note("knowledge/memory/MEMORY.md", text))

    assert [each.severity for each in findings] == severities


@pytest.mark.parametrize(
    "text",
    [
        "# No frontmatter\n",
        "---\ntags: []\n---\n",
        "---\nsession_id: x\nstarted: 2026-11-18\n---\n",
    ],
)
def test_a_conversation_needs_its_frontmatter(text: str) -> None:
    """002-R059, 002-R074: without it nobody knows which session it is."""
    path = "raw/conversations/2026/11/18/1000-ses_0123abcd-hello.md"

    assert {each.severity for each in check_note(Note(path, text))} == {"error"}


def test_a_complete_conversation_is_right() -> None:
    """002-R059: the fields of a conversation."""
    text = (
        "---\nsession_id: ses_0123abcd\nstarted: 2026-11-18T10:00:00Z\n"
        "ended: 2026-11-18T11:00:00Z\nmodel: m\nchannel: cli\ntags: []\ntokens_in: 1\n"
        "tokens_out: 2\nknowledge_changes: []\n---\n"
    )

    assert check_note(Note("raw/conversations/2026/11/18/1000-ses_0123abcd-x.md", text)) == ()


def test_a_new_note_without_a_needed_field_is_refused() -> None:
    """The error comes when the note is written, not at the next commit."""
    with pytest.raises(Incorrect, match="needs name"):
        new_note(NoteType.PERSON, title="Ada", fields={"updated": UPDATED})
    with pytest.raises(Incorrect, match="role is 'ghost'"):
        new_note(NoteType.IDENTITY, title="A", fields={"role": "ghost", "updated": UPDATED})


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("knowledge/identity/SOUL.md", Category.IDENTITY),
        ("knowledge/memory/MEMORY.md", Category.MEMORY),
        ("knowledge/journal/2026-11-18.md", Category.JOURNAL),
        ("knowledge/projects/engine/notes.md", Category.PROJECT),
        ("knowledge/people/_index.md", Category.PERSON),
        ("knowledge/procedures/a.md", Category.PROCEDURE),
        ("knowledge/reference/a/b.md", Category.REFERENCE),
        ("topics/mail.md", Category.TOPIC),
        ("raw/conversations/2026/11/18/x.md", Category.CONVERSATION),
        ("archive/journal/2026-01-01.md", Category.JOURNAL),
        ("archive/topics/mail.md", Category.TOPIC),
        ("knowledge/people/photo.png", None),
        ("scratch/x.md", None),
        ("README.md", None),
    ],
)
def test_the_folder_is_the_category(path: str, category: Category | None) -> None:
    """002-R012 to 002-R019, 002-R159: where a note is says what it is about."""
    assert category_of(path) is category


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("CLAUDE.md", Category.IDENTITY),
        ("service/AGENTS.md", Category.IDENTITY),
        ("Daily Notes/2026-11-18.md", Category.JOURNAL),
        ("2026-11-18.md", Category.JOURNAL),
        ("Projects/Engine/plan.md", Category.PROJECT),
        ("People/Ada.md", Category.PERSON),
        ("topics/mail.md", Category.TOPIC),
        ("Zettel/idea.md", Category.REFERENCE),
        (".obsidian/plugins/x.md", None),
        ("templates/x.md", None),
        ("img/a.png", None),
    ],
)
def test_an_adopted_folder_keeps_its_own_layout(path: str, category: Category | None) -> None:
    """A vault is used where it is; its folders have the names that other tools give them."""
    assert category_of(path, adopted=True) is category


def test_the_layout_names_every_folder() -> None:
    """002-R011, 002-R013, 002-R014, 002-A02: the raw conversations are outside of the root."""
    layout = Layout(Path("/k"), Path("/raw"))

    assert layout.memory == Path("/k/knowledge/memory/MEMORY.md")
    assert layout.conversations == Path("/raw/raw/conversations")
    assert [layout.index, layout.archive, layout.scratch] == [
        Path("/k/memory.db"),
        Path("/k/archive"),
        Path("/k/scratch"),
    ]


def test_the_archive_mirrors_the_folders() -> None:
    """002-A03, 002-R018, 002-R048: journals go to archive/journal."""
    assert archive_path("knowledge/journal/2026-01-01.md") == "archive/journal/2026-01-01.md"
    assert str(day_of("archive/journal/2026-01-01.md")) == "2026-01-01"
    assert day_of("2026-13-01.md") is None
