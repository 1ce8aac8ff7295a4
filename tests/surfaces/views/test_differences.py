"""Unified diffs and compared fields: only common parts are skipped."""

import difflib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.surfaces.views import differences
from ctxmgr.surfaces.views.differences import compare_documents, diff_texts

texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "x"]), max_size=30).map("".join)


@given(texts, texts)
def test_a_patch_turns_one_text_into_the_other(before: str, after: str) -> None:
    """The diff has every difference and correct line numbers, whatever is skipped."""
    assert _patched(before, diff_texts(before, after)) == after


def test_equal_texts_have_no_difference() -> None:
    """Nothing is printed where nothing changed."""
    assert diff_texts("a\n", "a\n") == ""


def test_a_lost_newline_at_the_end_is_a_difference() -> None:
    """It is reported as in other diff programs."""
    diff = diff_texts("a\n", "a")

    assert diff.endswith("-a\n+a\n\\ No newline at end of file\n")


def test_a_long_text_has_the_same_diff_as_difflib() -> None:
    """Skipping the common start and end changes neither hunks nor numbers."""
    old = [f"line {n}\n" for n in range(1000)]
    new = [*old[:500], "new\n", *old[500:]]

    expected = "".join(difflib.unified_diff(old, new, "before", "after"))
    assert diff_texts("".join(old), "".join(new)) == expected


def test_texts_too_long_to_compare_are_replaced_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing is quadratic in the number of lines, so it is limited."""
    monkeypatch.setattr(differences, "COMPARED_LINES_MAX", 3)

    diff = diff_texts("a\nb\nc\n", "b\nc\nd\n")

    assert _patched("a\nb\nc\n", diff) == "b\nc\nd\n"
    assert diff.count("\n-") == 3


def test_fields_are_compared_by_value_without_hashes() -> None:
    """For Python, true and 1 are equal; in a document they are not."""
    old = {"xt/id": "x", "n": 1, "ids": ["a", "b"], "object_hash": "1", "content": "one\n"}
    new = {"xt/id": "x", "n": True, "ids": ["b", "c"], "object_hash": "2", "content": "two\n"}

    fields, diff = compare_documents(old, new)

    assert [field.field for field in fields] == ["n", "ids"]
    assert (fields[1].added, fields[1].removed) == (("c",), ("a",))
    assert "-one\n+two\n" in diff


def _patched(before: str, diff: str) -> str:
    """Apply a diff by its hunks, checking what it removes."""
    lines, out, at = before.splitlines(keepends=True), [], 0
    for line, following in pairwise([*diff.splitlines(keepends=True)[2:], ""]):
        text = line[1:].rstrip("\n") if following.startswith("\\") else line[1:]
        if line.startswith("@@"):
            first, _, length = line.split()[1].lstrip("-").partition(",")
            start = int(first) - (0 if length == "0" else 1)
            out += lines[at:start]
            at = start
        elif line.startswith("+"):
            out.append(text)
        elif not line.startswith("\\"):
            assert lines[at] == text
            at += 1
            out += [text] if line.startswith(" ") else []
    return "".join([*out, *lines[at:]])
