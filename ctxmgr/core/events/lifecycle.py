"""Whether a client has a session open. Pure."""

from typing import Final

from ctxmgr.core.store.documents import ID, KIND, Document

LIFECYCLE: Final = "lifecycle"
"""A plain document ``lifecycle:{session}`` that says whether a client has the session open. It is
separate because the session's own document must not change by that."""

ACTIVE: Final = "active"
PAUSED: Final = "paused"


def lifecycle_document(session_id: str, *, state: str) -> Document:
    """Return the document that records that a session was paused or resumed."""
    assert state in {ACTIVE, PAUSED}
    return {
        ID: f"{LIFECYCLE}:{session_id}",
        KIND: LIFECYCLE,
        "session": session_id,
        "state": state,
    }
