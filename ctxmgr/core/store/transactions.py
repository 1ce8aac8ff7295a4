"""Checks of the arguments of a store's methods, shared by all stores. Pure.

All stores call these checks, so all refuse the same things with the same messages.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.store.canonical import canonical, canonical_items
from ctxmgr.core.store.contract import (
    INSTANT_MAX,
    KEY_LENGTH_MAX,
    OPERATIONS_MAX,
    AsOf,
    Delete,
    FieldType,
    IdForm,
    Instant,
    Kind,
    Match,
    Operation,
    Put,
)
from ctxmgr.core.store.documents import ID, KIND, Document, check_document, check_object_id
from ctxmgr.errors import Incorrect

INDEXED_TEXT_BYTES_MAX: Final = 200
"""UTF-8 bytes of a declared text: XTDB orders values of up to 224 bytes, including overhead."""

LONG_LIST_MIN: Final = 64
"""Items from which a list is worth being treated as one that grows; shorter ones are read whole."""

SEQUENCE_MAX: Final = 2**63 - 1
"""Both engines count transactions with 64-bit integers."""

_INTEGER_MAX: Final = 2**63 - 1
_WRITES: Final = (Put, Delete)
_HASHED: Final = re.compile("[0-9a-f]{64}")
_HASH_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class CheckedOperations:
    """The valid operations of a transaction. Writes are in the caller's order."""

    matches: tuple[Match, ...]
    writes: tuple[Put | Delete, ...]


def check_operations(
    operations: Iterable[Operation], kinds: Mapping[str, Kind]
) -> CheckedOperations:
    """Separate matches from writes; ``Incorrect`` if an operation is invalid."""
    operations = tuple(operations)
    if len(operations) > OPERATIONS_MAX:
        raise Incorrect(
            f"{len(operations)} operations in one transaction, at most {OPERATIONS_MAX} are allowed"
        )
    matches: list[Match] = []
    writes: list[Put | Delete] = []
    for operation in operations:
        if isinstance(operation, Match):
            _check_match(operation)
            matches.append(operation)
        elif isinstance(operation, _WRITES):
            _check_write(operation, kinds)
            writes.append(operation)
        else:
            raise Incorrect(f"expected a Put, Delete or Match, not {operation!r:.80}")
    if len(operations) > 1:
        _refuse_duplicates([written_id(write) for write in writes])
        _refuse_duplicates([(match.object_id, match.valid_time) for match in matches])
    return CheckedOperations(tuple(matches), tuple(writes))


def written_id(write: Put | Delete) -> str:
    """Return the id that an operation writes."""
    if isinstance(write, Delete):
        return write.object_id
    object_id: str = write.document[ID]
    return object_id


def reserved_for(object_id: str, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """Return the declared kinds that alone may use an id; empty if every kind may."""
    name, colon, _ = object_id.partition(":")
    if colon and name in kinds and kinds[name].ids is IdForm.NAMED:
        return (name,)
    if len(object_id) == _HASH_LENGTH and _HASHED.fullmatch(object_id):
        return tuple(name for name, kind in kinds.items() if kind.ids is IdForm.HASHED)
    return ()


def check_id_form(object_id: str, kind: str, kinds: Mapping[str, Kind]) -> None:
    """Raise ``Incorrect`` unless an object of this kind may have this id."""
    owners = reserved_for(object_id, kinds)
    if owners and kind not in owners:
        raise Incorrect(
            f"{object_id}: this id is reserved for objects of type {' or '.join(owners)}; "
            f"use another id for this {kind}"
        )
    ids = kinds[kind].ids if kind in kinds else IdForm.FREE
    if ids is not IdForm.FREE and not owners:
        form = f"starts with {kind}:" if ids is IdForm.NAMED else "is its identity_hash"
        raise Incorrect(f"{object_id}: not the id of a {kind}, which {form}")


def is_single_version(kind: str, kinds: Mapping[str, Kind]) -> bool:
    """Whether objects of this kind have one version for good."""
    return kind in kinds and kinds[kind].single_version


def second_version(object_id: str, kind: str) -> Incorrect:
    """Return the error for another version of an object that has a single one."""
    return Incorrect(
        f"{object_id}: is stored as a {kind}, which has a single version; use another id"
    )


def other_kind(object_id: str, kind: str) -> Incorrect:
    """Return the error for a document with a single version under the id of something else."""
    return Incorrect(f"{object_id}: another object has this id; a {kind} needs an id of its own")


def check_key(key: str) -> None:
    """Raise ``Incorrect`` unless this is a valid idempotency key."""
    is_printable = isinstance(key, str) and key.isascii() and key.isprintable()
    if not is_printable or not 1 <= len(key) <= KEY_LENGTH_MAX:
        raise Incorrect(
            f"a key must be 1 to {KEY_LENGTH_MAX} printable ASCII characters, not {key!r}"
        )


def check_as_of(as_of: AsOf) -> None:
    """Raise ``Incorrect`` unless this is one point on both time axes."""
    if not isinstance(as_of, AsOf):
        raise Incorrect(f"as_of must be an AsOf, not {as_of!r:.80}")
    if as_of.sequence is not None and as_of.system_time is not None:
        raise Incorrect("as_of has both a sequence and a system time; give one of them")
    _check_sequence(as_of.sequence, "as of", lowest=0)
    _check_instant(as_of.valid_time, "valid_time")
    _check_instant(as_of.system_time, "system_time")


def check_since(since: Instant | None) -> None:
    """Raise ``Incorrect`` unless a history can start there."""
    _check_instant(since, "since")


def check_after(after: int | None) -> None:
    """Raise ``Incorrect`` unless a feed can continue after this; -1 is before every sequence."""
    _check_sequence(after, "after", lowest=-1)


def digest(checked: CheckedOperations) -> str:
    """Identify the operations by their content, so that a key cannot be used for others."""
    values = [_operation_value(operation) for operation in (*checked.matches, *checked.writes)]
    return hashlib.sha256(canonical(values)).hexdigest()


def short_digest(checked: CheckedOperations) -> str:
    """Identify the operations by their content, hashing only the new items of lists that grow.

    A list of more than ``LONG_LIST_MIN`` items is represented by its own hash.
    """
    values = [
        ["put", _shortened(operation), operation.valid_from, operation.valid_to]
        if isinstance(operation, Put)
        else _operation_value(operation)
        for operation in (*checked.matches, *checked.writes)
    ]
    return hashlib.sha256(canonical(["short", *values])).hexdigest()


def _shortened(put: Put) -> list[Any]:
    grown = put.grown or {}
    small: Document = {}
    long: dict[str, str] = {}
    for name, value in put.document.items():
        if isinstance(value, list) and len(value) >= LONG_LIST_MIN:
            items = grown[name] if name in grown else AppendOnly(value)
            long[name] = canonical_items(items).digest()
        else:
            small[name] = value
    return [small, long]


def _operation_value(operation: Operation) -> list[Any]:
    match operation:
        case Match(object_id, token, valid_time):
            return ["match", object_id, token, valid_time]
        case Delete(object_id, valid_from, valid_to):
            return ["delete", object_id, valid_from, valid_to]
        case Put(document, valid_from, valid_to):
            return ["put", document, valid_from, valid_to]


def _check_write(write: Put | Delete, kinds: Mapping[str, Kind]) -> None:
    if isinstance(write, Put):
        if not write.checked:
            check_document(write.document, grown=write.grown)
        kind = kinds.get(write.document[KIND])
        check_id_form(write.document[ID], write.document[KIND], kinds)
        if kind is not None:
            _check_declared(write.document, kind)
            if kind.check is not None:
                kind.check(write.document)
    else:
        check_object_id(write.object_id)
    if write.valid_from is not None:
        _check_instant(write.valid_from, "valid_from")
    if write.valid_to is not None:
        _check_instant(write.valid_to, "valid_to")
        if write.valid_from is None or write.valid_to <= write.valid_from:
            raise Incorrect(f"{written_id(write)}: valid_to requires an earlier valid_from")


def _check_declared(document: Document, kind: Kind) -> None:
    for name, declared in kind.indexed.items():
        value = document.get(name)
        if value is not None and not fits(value, declared):
            raise Incorrect(
                f"{document[ID]}: {kind.name} declares {name} as {declared}, not {value!r:.80}"
            )


def fits(value: object, declared: FieldType) -> bool:
    """Whether a declared field may hold this value."""
    if declared is FieldType.TEXT:
        return isinstance(value, str) and len(value.encode()) <= INDEXED_TEXT_BYTES_MAX
    if declared is FieldType.BOOLEAN:
        return isinstance(value, bool)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return is_integer and abs(value) <= _INTEGER_MAX  # type: ignore[arg-type]


def _check_match(match: Match) -> None:
    check_object_id(match.object_id)
    token = match.token
    if token is not None and not (isinstance(token, str) and token.isascii()):
        raise Incorrect(f"{match.object_id}: invalid version token {token!r:.80}")
    if match.valid_time is not None:
        _check_instant(match.valid_time, "valid_time")


def _check_sequence(sequence: int | None, name: str, *, lowest: int) -> None:
    if sequence is None:
        return
    if type(sequence) is not int or not lowest <= sequence <= SEQUENCE_MAX:
        raise Incorrect(f"{name}: invalid sequence {sequence!r:.80}")


def _check_instant(instant: int | None, name: str) -> None:
    if instant is None:
        return
    if type(instant) is not int or not 0 <= instant <= INSTANT_MAX:
        raise Incorrect(f"{name} must be UTC milliseconds from 1970 to 9999, not {instant!r:.80}")


def _refuse_duplicates(ids: list[Any]) -> None:
    if len(set(ids)) < len(ids):
        duplicates = [object_id for object_id, times in Counter(ids).items() if times > 1]
        raise Incorrect(f"{', '.join(map(str, duplicates))}: twice in one transaction")
