"""Frontmatter: reading it as JSON values, and changing one field without touching the rest."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.errors import InvalidNote
from ctxmgr.knowledge.notes.frontmatter import (
    FRONTMATTER_CHARS_MAX,
    Value,
    field_lines,
    fields_of,
    set_fields,
    split,
)

NOTE = """\
---
# who wrote this
type: person   # one of the nine
"name": 'Ada'
tags: [maths,  engines]  # in order
aliases:
  - Countess   # by marriage
  - "A. A. L."

# how we know her
relationship: >-
  friend
  of the house
count: 0x1F
empty:
---
# Ada

---
A rule is not frontmatter.
"""

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(
        ["yes", "null", "~", "1e3", "2026-11-18", "- a", "a: b", "#x", "'", '"', "---"]
    ),
)
values: st.SearchStrategy[Value] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
names = st.sampled_from(
    ["type", "name", "tags", "aliases", "relationship", "count", "empty", "new"]
)


def test_fields_are_read_as_json_values() -> None:
    """002-R037: frontmatter is optional YAML; everything below works on plain values."""
    fields = fields_of(NOTE)

    assert json.loads(json.dumps(fields)) == {
        "type": "person",
        "name": "Ada",
        "tags": ["maths", "engines"],
        "aliases": ["Countess", "A. A. L."],
        "relationship": "friend of the house",
        "count": 31,
        "empty": None,
    }
    assert field_lines(NOTE)["tags"] == 5
    assert split(NOTE).body.startswith("# Ada\n\n---\n")


@pytest.mark.parametrize("text", ["", "# Only a body\n", "---\n\nA rule first.\n", "---\n---\nx"])
def test_a_note_needs_no_frontmatter(text: str) -> None:
    """002-R037: plain markdown is a note."""
    assert fields_of(text) == {}


def test_dates_stay_as_they_are_written() -> None:
    """A date and a datetime mean different things, and a reader in another zone sees the same."""
    fields = fields_of("---\ndate: 2026-11-18\nupdated: 2026-11-18T10:00:00Z\n---\n")

    assert fields == {"date": "2026-11-18", "updated": "2026-11-18T10:00:00Z"}


@settings(max_examples=30, deadline=None)
@given(names, values)
def test_changing_one_field_touches_no_other_line(name: str, value: Value) -> None:
    """Comments, order and quoting of people survive what an agent writes (002-R037, PG-32)."""
    changed = set_fields(NOTE, {name: value})

    assert fields_of(changed) == {**fields_of(NOTE), name: value}
    assert split(changed).body == split(NOTE).body
    for kept in ("# who wrote this", "# how we know her", "\"name\": 'Ada'", "count: 0x1F"):
        own = {"name": '"name"', "count": "count:"}.get(name)
        if own is None or not kept.startswith(own):
            assert kept in changed


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.text("abcXYZ_- :#'\"é", min_size=1, max_size=8), values, max_size=4))
def test_whatever_is_written_is_read_back(fields: dict[str, Value]) -> None:
    """002-R037: a value that a model chose cannot break the frontmatter."""
    written = set_fields("# Title\n", fields)

    assert fields_of(written) == fields
    assert set_fields(written, fields) == written
    assert written.endswith("# Title\n")


def test_items_are_added_to_a_list_beside_its_comments() -> None:
    """002-R045: the journal's list of sessions grows, and a person's remarks stay."""
    changed = set_fields(NOTE, {"aliases": ["Countess", "A. A. L.", "Enchantress"], "tags": []})

    assert '  - Countess   # by marriage\n  - "A. A. L."\n  - Enchantress\n' in changed
    assert "tags: []  # in order" in changed


def test_quoting_is_kept() -> None:
    """A person who quotes names finds them quoted."""
    assert "\"name\": 'O''Hara'\n" in set_fields(NOTE, {"name": "O'Hara"})


def test_windows_line_ends_are_kept() -> None:
    """A file with mixed line ends shows as changed in every line."""
    changed = set_fields("---\r\na: 1\r\n---\r\nx\r\n", {"a": 2, "b": "c"})

    assert changed == "---\r\na: 2\r\nb: c\r\n---\r\nx\r\n"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("---\na: [1\n---\n", 3, "not YAML"),
        ("---\na: 1\nb: x: y\n---\n", 3, "not YAML"),
        ("---\na: 1\nb: 2\na: 3\n---\n", 4, "twice"),
        ("---\n- a\n---\n", 2, "not a list of fields"),
        ("---\ntype: person\n", 1, "no closing"),
        ("---\na: *nothing\n---\n", 2, "not YAML"),
        ("---\na: &a [*a]\n---\n", 2, "nested"),
        (f"---\na: {'[' * 3000}\n---\n", 2, "YAML"),
        (f"---\na: {'x' * FRONTMATTER_CHARS_MAX}\n---\n", 1, "characters"),
        ("---\n? [a]\n: 1\n---\n", 2, "text"),
        ("---\na: \x07\n---\n", 2, "not YAML"),
    ],
)
def test_bad_frontmatter_is_an_error_that_names_the_line(
    text: str, line: int, problem: str
) -> None:
    """Notes come from people, models and foreign repositories; an error says where to look."""
    with pytest.raises(InvalidNote, match=problem) as error:
        fields_of(text)

    assert error.value.line == line


def test_aliases_cannot_stand_for_a_billion_values() -> None:
    """A file of 200 bytes must not fill the memory."""
    lines = ["a0: &a0 [x]"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)
    ]

    with pytest.raises(InvalidNote, match="more than"):
        fields_of("---\n" + "\n".join(lines) + "\n---\n")


def test_a_tag_constructs_nothing() -> None:
    """YAML can name Python objects; a note's are text."""
    assert fields_of("---\na: !!python/object/apply:os.getcwd []\n---\n") == {"a": []}
