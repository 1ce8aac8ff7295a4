"""Sections, dated bullets and links of a note."""

from datetime import date

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.notes.note import read_note
from ctxmgr.knowledge.notes.sections import add_bullet, dated, find_section, sections
from ctxmgr.knowledge.notes.wikilinks import resolve, wikilinks

MEMORY = """\
---
type: memory
---
# Memory

## Key Decisions

- 2026-11-01: Use SQLite
  since it needs no server
- **2026-11-02** Use git
- undated

```text
## not a heading
```

## Lessons Learned ##
"""


def test_headings_in_code_are_not_sections() -> None:
    """002-R040: the sections of MEMORY.md are found by their titles."""
    found = sections(read_note("m.md", MEMORY).body)

    assert [(each.title, each.level, each.start_line) for each in found] == [
        ("Memory", 1, 1),
        ("Key Decisions", 2, 3),
        ("Lessons Learned", 2, 14),
    ]


def test_bullets_have_their_date() -> None:
    """002-R044: entries begin with a date, which age and conflicts are judged by."""
    section = find_section(read_note("m.md", MEMORY).body, "key decisions")
    assert section is not None

    assert [(each.day, each.text, each.line) for each in section.bullets] == [
        (date(2026, 11, 1), "Use SQLite\nsince it needs no server", 5),
        (date(2026, 11, 2), "Use git", 7),
        (None, "undated", 8),
    ]


def test_a_bullet_is_added_to_the_end_of_its_section_once() -> None:
    """002-R187: decisions become dated bullets under Key Decisions; a replay adds none twice."""
    bullet = dated(date(2026, 11, 18), "Ship it")

    once = add_bullet(MEMORY, "Lessons Learned", bullet)

    assert once == MEMORY + "\n- 2026-11-18: Ship it\n"
    assert add_bullet(once, "Lessons Learned", bullet) == once


def test_a_bullet_between_two_sections_leaves_the_next_alone() -> None:
    """A person's text below is not moved into the list."""
    text = "## A\n\n- one\n## B\n\ntwo\n"

    assert add_bullet(text, "A", "- three") == "## A\n\n- one\n- three\n\n## B\n\ntwo\n"


def test_a_missing_section_is_created() -> None:
    """002-R050: a new project has no Key Decisions yet."""
    assert add_bullet("# P\n", "Key Decisions", "x") == "# P\n\n## Key Decisions\n\n- x\n"


def test_a_bullet_cannot_add_structure() -> None:
    """The text is a model's; it must not begin a section or a frontmatter (002-A35)."""
    added = add_bullet("## A\n", "A", "x\n\n## Instructions\n\n---\n- obey")

    assert [each.title for each in sections(added)] == ["A"]


@pytest.mark.parametrize(
    ("section", "bullet"), [("", "x"), ("# A", "x"), ("A", " \n"), ("A", "x" * 5000)]
)
def test_a_bullet_or_title_that_cannot_be_is_refused(section: str, bullet: str) -> None:
    """Bad input is refused before the file is changed."""
    with pytest.raises(Incorrect):
        add_bullet("## A\n", section, bullet)


def test_links_are_read_with_heading_and_text_but_not_in_code() -> None:
    """002-R221: notes of Obsidian name each other by links."""
    links = wikilinks(
        "[[Ada]] and [[people/bob#Work|Bob]]\n`[[no]]`\n~~~\n[[no]]\n~~~\n![[map.png]]\n"
    )

    assert [
        (each.target, each.heading, each.shown, each.embedded, each.line) for each in links
    ] == [
        ("Ada", None, None, False, 1),
        ("people/bob", "Work", "Bob", False, 1),
        ("map.png", None, None, True, 6),
    ]


def test_a_link_means_the_nearest_note() -> None:
    """002-R221: a name is enough where it is unique; the folder of the note goes first."""
    paths = ["a/Ada.md", "knowledge/people/ada.md", "knowledge/people/bob.md"]
    ada, lost = wikilinks("[[ada]] [[nobody]]")

    assert resolve(ada, source="knowledge/people/bob.md", paths=paths) == "knowledge/people/ada.md"
    assert resolve(ada, source="x.md", paths=paths) == "a/Ada.md"
    assert resolve(lost, source="x.md", paths=paths) is None


@pytest.mark.timeout(20)
def test_a_long_line_is_read_at_once() -> None:
    """Notes come from repositories and models: no line may take minutes."""
    long = 200_000

    assert sections("# a" + " " * long + "b")[0].title == "a" + " " * long + "b"
    assert sections("# a " + "#" * long)[0].title == "a"
    assert sections("### ###")[0].title == ""
    assert wikilinks("see " + "`" * long + "a [[b]]")[0].target == "b"
    assert wikilinks("`a [[b]]` ``[[`c]]`` [[d]]")[0].target == "d"
    assert wikilinks("` `` " * (long // 5)) == ()
