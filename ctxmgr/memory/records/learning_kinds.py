"""How stores index what learning writes beside memories. Pure."""

import hashlib
from typing import Final

from ctxmgr.core.store.contract import FieldType, IdForm, Kind

LEARNING: Final = "memory_session"
POSITION: Final = "memory_position"
REFUSED: Final = "memory_refused"
HABITS: Final = "memory_habits"
VERDICT: Final = "memory_verdict"

SESSION_BYTES_MAX: Final = 500
"""Of a session's id in the ids of our documents; longer ones are replaced by a hash."""

LEARNING_KIND: Final = Kind(LEARNING, ids=IdForm.NAMED)
POSITION_KIND: Final = Kind(POSITION, ids=IdForm.NAMED)
HABITS_KIND: Final = Kind(HABITS, ids=IdForm.NAMED)
VERDICT_KIND: Final = Kind(VERDICT, ids=IdForm.NAMED)
REFUSED_KIND: Final = Kind(
    REFUSED,
    {"user_id": FieldType.TEXT, "project_id": FieldType.TEXT, "refused_at": FieldType.INTEGER},
    ids=IdForm.NAMED,
)


def named_after(session_id: str) -> str:
    """Return what stands for a session in the ids of documents, which have a limited length."""
    if len(session_id.encode()) <= SESSION_BYTES_MAX:
        return session_id
    return hashlib.sha256(session_id.encode()).hexdigest()
