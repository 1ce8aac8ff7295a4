"""The records of the audit log: their hashes, and what is found when a byte is altered."""

import hashlib
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.audit.alterations import LINE, Altered, check_line, find_field
from ctxmgr.audit.records import (
    CHECKED,
    FIELDS,
    SEAL_BYTES,
    START,
    AuditEntry,
    AuditRecord,
    Link,
    PreparedEntry,
)
from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import EventOrigin
from ctxmgr.errors import Incorrect

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
entries = st.builds(
    AuditEntry,
    session_id=names,
    tick=st.none() | st.integers(0, 2**53),
    event_type=st.sampled_from(EventType),
    raw_content=texts,
    timestamp=st.integers(0, 2**53),
    lens_activations=st.dictionaries(names, st.floats(-1, 1), max_size=4),
    steering_applied=st.lists(st.dictionaries(names, json_values, max_size=3), max_size=2),
    source=st.none()
    | st.builds(EventOrigin, names, st.integers(0, 2**40), st.integers(0, 99), st.integers(0, 9)),
)


def entry(**changes: Any) -> AuditEntry:
    values = {
        "session_id": "s1",
        "tick": 5,
        "event_type": EventType.OUTPUT,
        "raw_content": "hello",
        "timestamp": 1_763_287_200_000,
        **changes,
    }
    return AuditEntry(**values)


def line_of(given_entry: AuditEntry, previous: Link = START, sequence: int = 0) -> bytes:
    line, _ = PreparedEntry(given_entry, be_id="be-1").line(previous, sequence=sequence)
    return line


def test_the_record_hash_is_the_formula_of_the_requirements() -> None:
    """000-R103, 000-R105, 000-R107, 000-R108, 000-R109: anyone can recompute the chain."""
    line, link = PreparedEntry(entry(), be_id="be-1").line(START, sequence=0)
    following = orjson.loads(line_of(entry(tick=6), link))

    values = orjson.loads(line)

    assert values["prev_record_hash"] == "genesis"
    assert values["id"] == "audit-s1-5-0"
    assert values["record_hash"] == hashlib.sha256(b"genesis:s1:5:hello").hexdigest()
    assert following["prev_record_hash"] == values["record_hash"]
    assert following["prev_full_hash"] == values["full_hash"]
    assert {"id", "timestamp", "session_id", "tick", "lens_activations", "steering_applied"} < {
        *values
    }


@given(entries, st.integers(0, 9))
def test_what_is_recorded_is_read_back(given_entry: AuditEntry, sequence: int) -> None:
    """000-R105: a record holds every field, whatever characters it contains."""
    line = line_of(given_entry, sequence=sequence)

    values, link = check_line(line[:-1], START)
    record = AuditRecord.of(values)

    assert line.count(b"\n") == 1
    assert tuple(values) == FIELDS
    assert record.full_hash == link.full_hash
    assert record.raw_content == given_entry.raw_content
    assert record.lens_activations == given_entry.lens_activations
    assert list(record.steering_applied) == list(given_entry.steering_applied)
    assert record.source == given_entry.source
    assert (record.number, record.sequence) == (1, sequence)


@given(entries, st.data())
@settings(max_examples=300)
def test_any_altered_bit_is_found_and_its_field_is_named(
    given_entry: AuditEntry, data: st.DataObject
) -> None:
    """000-A03, 000-R099, 000-R111, PG-15: no bit of any field can change unnoticed."""
    line = line_of(given_entry)[:-1]
    position = data.draw(st.integers(0, len(line) - 1))
    altered = bytearray(line)
    altered[position] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(Altered) as found:
        check_line(bytes(altered), START)

    assert found.value.number == 1
    assert found.value.field == field_at(line, position)


def field_at(line: bytes, position: int) -> str:
    """The field whose value holds a byte, found by writing the line again."""
    start = 0
    for name, value in orjson.loads(line).items():
        mark = (b"," if start else b"{") + b'"%b":' % name.encode()
        start += len(mark)
        end = (
            line.index(b',"' + FIELDS[FIELDS.index(name) + 1].encode() + b'":', start)
            if (name != FIELDS[-1])
            else len(line) - 1
        )
        assert orjson.loads(line[start:end]) == value
        if position < start:
            return LINE
        if position < end:
            return name
        start = end
    return LINE


@pytest.mark.parametrize("name", CHECKED)
def test_a_field_that_was_replaced_with_its_check_is_found(name: str) -> None:
    """The check values only locate; the hash finds what was made to match them."""
    other = entry(
        timestamp=1,
        event_type=EventType.INPUT,
        source=EventOrigin("x", 1, 2, 3),
        lens_activations={"a": 0.5},
        steering_applied=[{"b": 1}],
        raw_content="bye",
    )
    values = orjson.loads(line_of(entry()))
    replaced = orjson.loads(PreparedEntry(other, be_id="be-2").line(START, sequence=0)[0])
    position = CHECKED.index(name) * 8
    checks = values["checks"]
    checks = (
        checks[:position] + replaced["checks"][position : position + 8] + checks[position + 8 :]
    )
    forged = orjson.dumps({**values, name: replaced[name], "checks": checks})

    with pytest.raises(Altered):
        check_line(forged, START)


def test_an_altered_hash_is_told_from_altered_content_by_the_next_record() -> None:
    """A reviewer should not search the content of a record for a change in its hash."""
    line = bytearray(line_of(entry())[:-1])
    true_hash = bytes(line[-66:-2])
    line[-10] ^= 1

    assert find_field(bytes(line), START, next_prev=true_hash) == "full_hash"


@pytest.mark.parametrize(
    ("number", "reason"),
    [(1, "record 1 stands where record 2 should"), (4, "2 to 3 missing: record 4 follows")],
)
def test_a_misplaced_record_is_named(number: int, reason: str) -> None:
    """000-R111: removed, doubled and reordered records are all records in the wrong place."""
    line = line_of(entry(), Link(number - 1, "a", "b"))[:-1]

    with pytest.raises(Altered) as found:
        check_line(line, Link(1, "a", "b"))

    assert (found.value.number, found.value.field) == (2, "number")
    assert found.value.reason == reason


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"raw_content": "\ud800"}, "lone surrogate"),
        ({"session_id": ""}, "session_id must have 1 to 1,024 bytes, not 0"),
        ({"session_id": "x" * 1025}, "not 1,025"),
        ({"tick": -1}, "tick must be 0"),
        (
            {"lens_activations": {"a": float("nan")}},
            "the score of 'a' is not a finite number|lens_activations",
        ),
        (
            {"lens_activations": {"a": object()}},
            "the score of 'a' is not a finite number|lens_activations",
        ),
        ({"steering_applied": [{"a": object()}]}, "steering_applied"),
        ({"raw_content": "x" * 17_000_000}, "too large; the limit is 16,777,216"),
    ],
)
def test_what_cannot_be_stored_is_refused(changes: dict[str, Any], message: str) -> None:
    """000-A33: a record is written whole or refused with the reason."""
    with pytest.raises(Incorrect, match=message):
        PreparedEntry(entry(**changes), be_id="be-1")


def test_the_seal_has_its_length() -> None:
    """A third party cuts as many bytes from a line before hashing it."""
    line = line_of(entry())[:-1]

    assert line[-SEAL_BYTES:].startswith(b',"full_hash":"')
