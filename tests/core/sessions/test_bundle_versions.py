"""Versions hashed incrementally have the same hashes as each version alone."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.objects.hashes import NOT_METADATA, metadata_hash, sha256
from ctxmgr.core.sessions.bundle import VersionBytes, changed, difference
from ctxmgr.core.store.canonical import canonical
from tests.core.builders.values import values

documents = st.dictionaries(
    st.sampled_from(["xt/id", "type", "content", "turns", "toolcall_refs", "turn_count"]),
    st.lists(values, max_size=3) | values,
    max_size=5,
)
"""A few names, so that versions have fields in common."""

grown = st.lists(values, max_size=3)


@given(st.lists(documents, max_size=6), st.lists(grown, max_size=4))
def test_every_version_has_the_hash_it_has_alone(
    versions: list[dict[str, Any]], additions: list[list[Any]]
) -> None:
    """003-R054, 003-R059: incremental writing gives the bytes of writing from scratch."""
    turns: list[Any] = []
    for addition in additions:
        turns = [*turns, *addition]
        versions.append({"turns": turns, "turn_count": len(turns)})
    written, before = VersionBytes(), {}

    for document in versions:
        fields = difference(before, document)
        written.change(fields)

        assert written.hash() == sha256(canonical(document))
        assert written.hash(without=NOT_METADATA) == metadata_hash(document)
        assert canonical(changed(before, fields)) == canonical(document)
        before = document


def test_values_equal_in_python_may_still_differ() -> None:
    """003-R059: True and 1 are equal in Python but differ in a document."""
    assert difference({"a": [1]}, {"a": [True]}) == {"a": {"=": [True]}}
    assert difference({"a": 1}, {"a": True}) == {"a": {"=": True}}


def test_a_grown_list_is_written_as_its_new_items() -> None:
    """A chat then takes space proportional to its text."""
    assert difference({"a": [1, 2]}, {"a": [1, 2, 3]}) == {"a": {"+": [3]}}
