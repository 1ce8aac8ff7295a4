"""Every exception: its category, message and values."""

import inspect

import pytest

from ctxmgr import errors
from ctxmgr.errors import (
    Conflict,
    Corrupt,
    CtxmgrError,
    Denied,
    HashMismatch,
    Incorrect,
    NewerFormat,
    NotContent,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)

ALL = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, CtxmgrError)
]


def test_every_error_has_a_unique_code() -> None:
    """Surfaces translate codes to statuses and back, which needs unique codes."""
    codes = [error.code for error in ALL]

    assert len(set(codes)) == len(codes) == len(ALL)


def test_every_error_is_in_the_tree_of_the_module_docstring() -> None:
    """People read the tree, so it must be correct."""
    drawn = errors.__doc__ or ""

    assert [error.__name__ for error in ALL if f" {error.__name__} " not in f" {drawn}"] == [
        "CtxmgrError"
    ]
    assert "\nCtxmgrError\n" in drawn


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (NotContent, Incorrect),
        (NewerFormat, Incorrect),
        (OutcomeUnknown, Unavailable),
        (HashMismatch, Corrupt),
        *((error, CtxmgrError) for error in (Incorrect, NotFound, Conflict, Denied, Unavailable)),
    ],
)
def test_an_error_can_be_caught_by_its_category(
    error: type[CtxmgrError], remedy: type[CtxmgrError]
) -> None:
    """A caller that retries what is unavailable need not know every reason."""
    assert issubclass(error, remedy)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NotContent("chat:s1", "chat"), "chat:s1 is a chat, which has a fixed place in the prompt"),
        (
            NewerFormat("x.db", 3, 1),
            "x.db has format 3, this ctxmgr reads formats up to 1: upgrade ctxmgr",
        ),
        (
            Conflict(("a", "b")),
            "a, b: changed by another writer since it was read; read again and retry",
        ),
        (
            Conflict(()),
            "the transaction: changed by another writer since it was read; read again and retry",
        ),
        (
            OutcomeUnknown("k1", "timed out"),
            (
                "the outcome of transaction k1 is unknown (timed out); "
                "commit it again with the same key: it is written at most once"
            ),
        ),
        (
            HashMismatch("a", "object_hash", None, "ff"),
            "a: object_hash is stored as None, but its content hashes to ff",
        ),
    ],
)
def test_the_message_says_what_happened_with_the_values(error: CtxmgrError, message: str) -> None:
    """003-R025, 003-A21: the reader knows what to do next."""
    assert str(error) == message


def test_errors_have_their_values_as_attributes() -> None:
    """A caller that handles an error does not parse its message."""
    mismatch = HashMismatch("a", "content_hash", "00", "ff")

    assert Conflict(("a", "b")).object_ids == ("a", "b")
    assert OutcomeUnknown("k1", "lost").key == "k1"
    assert (mismatch.object_id, mismatch.field) == ("a", "content_hash")
    assert (mismatch.stored, mismatch.computed) == ("00", "ff")
    assert (NotContent("c", "chat").object_id, NotContent("c", "chat").kind) == ("c", "chat")
    assert (NewerFormat("x", 3, 1).found, NewerFormat("x", 3, 1).known) == (3, 1)
