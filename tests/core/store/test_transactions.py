"""Transactions are validated before any store sees them."""

from typing import Any

import pytest

from ctxmgr.core.store.contract import (
    INSTANT_MAX,
    KEY_LENGTH_MAX,
    OPERATIONS_MAX,
    AsOf,
    Delete,
    FieldType,
    Kind,
    Match,
    Operation,
    Put,
)
from ctxmgr.core.store.transactions import (
    INDEXED_TEXT_BYTES_MAX,
    check_as_of,
    check_key,
    check_operations,
    digest,
    fits,
    written_id,
)
from ctxmgr.errors import Incorrect

KINDS = {
    "note": Kind(
        "note",
        {"topic": FieldType.TEXT, "rank": FieldType.INTEGER, "done": FieldType.BOOLEAN},
    )
}


def _note(object_id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"xt/id": object_id, "type": "note", **fields}


def test_matches_are_separated_from_writes_in_order() -> None:
    """003-A21: a match guards the whole transaction, whatever its position."""
    put, delete, match = Put(_note("a")), Delete("b"), Match("a", None)

    checked = check_operations([put, match, delete], KINDS)

    assert checked.matches == (match,)
    assert checked.writes == (put, delete)
    assert [written_id(write) for write in checked.writes] == ["a", "b"]


def test_an_empty_transaction_is_valid() -> None:
    """Callers need not treat an empty batch specially."""
    checked = check_operations([], KINDS)

    assert (checked.matches, checked.writes) == ((), ())


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "x" * INDEXED_TEXT_BYTES_MAX, "rank": -(2**63) + 1, "done": False},
        {"topic": None, "rank": None, "done": None},
        {},
        {"undeclared": [1, {"a": "x" * 500}]},
    ],
)
def test_declared_fields_must_have_their_type(fields: dict[str, Any]) -> None:
    """Null and absent are always allowed, and undeclared fields may have any type."""
    assert check_operations([Put(_note(**fields))], KINDS).writes


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (Put({"type": "note"}), "an object id .* must be a non-empty string"),
        (Put(_note(x=float("nan"))), "a: x: nan cannot be represented in JSON"),
        (Put(_note(topic=5)), "a: note declares topic as text, not 5"),
        (Put(_note(topic="é" * 101)), "a: note declares topic as text, not 'é"),
        (Put(_note(rank="1")), "a: note declares rank as integer, not '1'"),
        (Put(_note(rank=True)), "a: note declares rank as integer, not True"),
        (Put(_note(rank=2**63)), "a: note declares rank as integer"),
        (Put(_note(rank=1.0)), "a: note declares rank as integer, not 1.0"),
        (Put(_note(done=1)), "a: note declares done as boolean, not 1"),
        (Put(_note(), -1), "valid_from must be UTC milliseconds from 1970 to 9999, not -1"),
        (
            Put(_note(), INSTANT_MAX + 1),
            "valid_from must be UTC milliseconds .*, not 253402300800000",
        ),
        (
            Put(_note(), 5, INSTANT_MAX + 1),
            "valid_to must be UTC milliseconds .*, not 253402300800000",
        ),
        (Put(_note(), None, 5), "a: valid_to requires an earlier valid_from"),
        (Put(_note(), 5, 5), "a: valid_to requires an earlier valid_from"),
        (Delete("b", 6, 5), "b: valid_to requires an earlier valid_from"),
        (Delete(""), "an object id .* must be a non-empty string"),
        (Delete("ctxmgr/x"), "are reserved"),
        (Match("", None), "an object id .* must be a non-empty string"),
        (Match("a", None, -1), "valid_time must be UTC milliseconds from 1970 to 9999, not -1"),
    ],
)
def test_an_invalid_transaction_is_refused(operation: Operation, message: str) -> None:
    """003-R124: every store refuses the same input with the same message."""
    with pytest.raises(Incorrect, match=message):
        check_operations([operation], KINDS)


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([Put(_note("a")), Put(_note("a"))], "a: twice in one transaction"),
        ([Put(_note("a")), Delete("a")], "a: twice in one transaction"),
        ([Match("a", None), Match("a", "t")], "twice in one transaction"),
    ],
)
def test_an_id_cannot_be_written_or_matched_twice(
    operations: list[Operation], message: str
) -> None:
    """Which of two writes wins would depend on the store."""
    with pytest.raises(Incorrect, match=message):
        check_operations(operations, KINDS)


def test_an_id_may_be_matched_at_two_instants() -> None:
    """A match may concern the past as well as the present."""
    checked = check_operations([Match("a", None, 1), Match("a", None, 2)], KINDS)

    assert len(checked.matches) == 2


def test_the_size_of_a_transaction_is_limited() -> None:
    """One transaction must not fill a store's memory."""
    with pytest.raises(Incorrect, match="10001 operations in one transaction, at most 10000"):
        check_operations((Delete(f"d{n}") for n in range(OPERATIONS_MAX + 1)), KINDS)


@pytest.mark.parametrize("key", ["k", "a b", "x" * KEY_LENGTH_MAX, "~!"])
def test_a_key_is_printable_ascii(key: str) -> None:
    """It appears in headers, files and logs."""
    check_key(key)


@pytest.mark.parametrize("key", ["", "x" * (KEY_LENGTH_MAX + 1), "é", "a\nb", "\0"])
def test_any_other_key_is_refused(key: str) -> None:
    """A key that arrives changed would make a retry write twice."""
    with pytest.raises(Incorrect, match="a key must be 1 to 128 printable ASCII characters"):
        check_key(key)


def test_a_point_has_at_most_one_system_time() -> None:
    """003-A26: the sequence decides; an instant is another way to name one."""
    check_as_of(AsOf(valid_time=0, sequence=0))
    check_as_of(AsOf(system_time=INSTANT_MAX))


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        (AsOf(sequence=1, system_time=1), "both a sequence and a system time"),
        (AsOf(sequence=-1), "as of: invalid sequence -1"),
        (AsOf(valid_time=-1), "valid_time must be UTC milliseconds from 1970 to 9999, not -1"),
        (
            AsOf(system_time=INSTANT_MAX + 1),
            "system_time must be UTC milliseconds .*, not 253402300800000",
        ),
    ],
)
def test_an_invalid_point_is_refused(as_of: AsOf, message: str) -> None:
    """003-A26: no store guesses which of two points was meant."""
    with pytest.raises(Incorrect, match=message):
        check_as_of(as_of)


def test_equal_operations_have_equal_digests() -> None:
    """A retry is recognised by its content, whatever the order of keys."""
    one = check_operations([Put(_note(b=1, c=[{"x": 1, "y": 2.0}])), Match("a", None)], KINDS)
    other = check_operations([Match("a", None), Put(_note(c=[{"y": 2, "x": 1}], b=1))], KINDS)

    assert digest(one) == digest(other)


def test_different_operations_have_different_digests() -> None:
    """Using one key for different operations is a mistake that must be detected."""
    operations: list[Operation] = [
        Put(_note()),
        Put(_note(x=None)),
        Put(_note(), 5),
        Put(_note(), 5, 6),
        Delete("a"),
        Delete("a", 5),
        Match("a", None),
        Match("a", "token"),
        Match("a", None, 5),
    ]

    digests = {digest(check_operations([operation], KINDS)) for operation in operations}

    assert len(digests) == len(operations)


def test_a_boolean_is_not_an_integer() -> None:
    """It is one in Python, but not in any store."""
    assert fits(True, FieldType.BOOLEAN)
    assert not fits(True, FieldType.INTEGER)
    assert not fits(1, FieldType.BOOLEAN)


def test_a_checked_document_is_not_checked_again():
    """A long chat is written at every turn, and checking it again would be slow."""
    (write,) = check_operations([Put(_note(odd={"odd"}), checked=True)], KINDS).writes

    assert isinstance(write, Put)
    with pytest.raises(Incorrect):
        check_operations([Put(_note(odd={"odd"}))], KINDS)
