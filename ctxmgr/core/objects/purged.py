"""The documents that record deletions and purges. Pure.

They are plain documents, not one of the five types; ``core.sessions.retention`` writes them.
"""

from hashlib import sha256
from typing import Final

from ctxmgr.core.store.contract import Version
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect

DELETION: Final = "deletion"
PURGE: Final = "purge"
PURGED: Final = "purged"

MARK: Final = "[purged]"
"""The text of a purged version."""


def deletion_id(session_id: str) -> str:
    return f"{DELETION}:{session_id}"


def refuse_deleted(session_id: str, deletion: Version | None) -> None:
    """Raise ``Incorrect`` if a session has this record: nothing may be added to it."""
    if deletion is None:
        return
    if PURGE in deletion.document:
        number = deletion.document[PURGE]
        raise Incorrect(f"session {session_id} was purged (purge {number}): use another id")
    raise Incorrect(
        f"session {session_id} is deleted: `ctxmgr sessions restore {session_id}` restores it"
    )


def purge_id(number: int) -> str:
    return f"{PURGE}:{number}"


def purged_id(object_id: str) -> str:
    """Return the id of the record of an object; hashed, since any id has to fit."""
    return f"{PURGED}:{sha256(object_id.encode()).hexdigest()}"


def purges_of(record: Version | None) -> list[Document]:
    """Return the purged versions of an object: sequence, hashes and the number of the purge.

    ``left`` is the object hash of what was left of it, which XTDB stores with a new sequence; older
    records lack it.
    """
    return [] if record is None else list(record.document["versions"])
