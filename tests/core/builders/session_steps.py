"""Random operations on the sets of a session."""

from typing import Final, TypeAlias

from hypothesis import strategies as st

from ctxmgr.core.sessions.sets import Session
from ctxmgr.errors import NotFound
from tests.core.builders.values import object_ids

Steps: TypeAlias = list[tuple[str, str]]

OPERATIONS: Final = (
    "add",
    "read",
    "created",
    "activate",
    "deactivate",
    "pin",
    "unpin",
)
steps: Final = st.lists(st.tuples(st.sampled_from(OPERATIONS), object_ids), max_size=20)


def after(session: Session, done: Steps) -> Session:
    """Return the session after these steps; steps on unknown objects are skipped."""
    for operation, object_id in done:
        try:
            given = (object_id,) if operation == "add" else object_id
            session = getattr(session, operation)(given)
        except NotFound:
            assert object_id not in session.session_index
    return session
