"""One object as a person looks at it: a version, or two of them side by side. Reads the store."""

from dataclasses import dataclass, field
from typing import Any

from ctxmgr.core.documents import ID, KIND
from ctxmgr.core.envelopes import FILE, OBJECT_KINDS
from ctxmgr.core.indexing import state_of
from ctxmgr.core.objects import from_document
from ctxmgr.core.past import prompt_as_of
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import AsOf, HistoryEntry, Instant, Store, Version
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.surfaces.differences import (
    ComparedVersion,
    Difference,
    PromptDifference,
    compare_documents,
    compare_prompts,
)
from ctxmgr.surfaces.known_turns import turn_count
from ctxmgr.surfaces.naming import version_at, version_number


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectView:
    """One version of an object."""

    object_id: str
    kind: str
    valid_time: Instant
    """When it became true."""
    state: str | None
    """Of a file: live, stub, deleted or nontext."""
    level: str | None
    """In the session asked for."""
    pinned: bool | None
    fields: dict[str, Any]
    content: str | None = field(repr=False)


async def view_object(
    store: Store, object_id: str, *, as_of: AsOf, version: int | None, session: Session | None
) -> ObjectView:
    """Show a version: the one asked for by number, or the one visible at a point."""
    if version is not None:
        _, entry = await version_number(store, object_id, version, as_of=as_of)
        as_of = AsOf(valid_time=entry.valid_time, sequence=entry.sequence)
        found: Version | None = await version_at(store, entry)
    else:
        found = await store.get(object_id, as_of=as_of)
    if found is None:
        raise NotFound(
            f"{object_id} is not there; `ctxmgr sessions` and `ctxmgr objects` list ids, "
            "and the beginning of one needs --session"
        )
    document = dict(found.document)
    content = document.pop("content", None)
    return ObjectView(
        object_id=object_id,
        kind=str(document.pop(KIND)),
        valid_time=found.valid_time,
        state=await checked_state(store, found, as_of),
        level=None if session is None else str(session.level(object_id) or "not met"),
        pinned=None if session is None else object_id in session.pinned_set,
        fields={name: value for name, value in document.items() if name != ID},
        content=content,
    )


async def compare_versions(store: Store, object_id: str, *, numbers: tuple[int, int]) -> Difference:
    """Compare two versions of an object."""
    (old, before), (new, after) = [
        await version_number(store, object_id, number) for number in numbers
    ]
    one, other = await version_at(store, before), await version_at(store, after)
    fields, diff = compare_documents(one.document, other.document)
    return Difference(
        object_id=object_id,
        kind=str(other.document[KIND]),
        before=_compared(old, before, one),
        after=_compared(new, after, other),
        same=not fields and not diff,
        fields=fields,
        diff=diff,
    )


async def compare_turns(
    store: Store, session: Session, *, from_turn: int | None, to_turn: int | None
) -> PromptDifference:
    """Compare the prompts of two turns; by default of the last two."""
    last = to_turn if to_turn is not None else await turn_count(store, session.session_id)
    first = from_turn if from_turn is not None else last - 1
    if first < 1:
        raise Incorrect(f"session {session.session_id} has no two turns to compare")
    one, other = [
        await prompt_as_of(store, session.session_id, turn=turn) for turn in (first, last)
    ]
    return compare_prompts(one, other, turns=(first, last))


async def checked_state(store: Store, version: Version, as_of: AsOf) -> str | None:
    """Check a version against its hashes; of a file, tell what can be shown of it."""
    if version.document[KIND] in OBJECT_KINDS:
        from_document(version.document)
    if version.document[KIND] != FILE:
        return None
    return str(await state_of(store, version, as_of=as_of))


def _compared(number: int, entry: HistoryEntry, version: Version) -> ComparedVersion:
    return ComparedVersion(
        version=number,
        valid_time=entry.valid_time,
        system_time=entry.system_time,
        sequence=entry.sequence,
        object_hash=hash_of(version),
    )


def hash_of(version: Version | None) -> str | None:
    """Return the hash of a version; None: there is none, or its kind has no hashes."""
    return None if version is None else version.document.get("object_hash")
