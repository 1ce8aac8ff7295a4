"""What can be done to a session, at random."""

from typing import Final, TypeAlias

from hypothesis import strategies as st

from ctxmgr.core.sessions import Session
from ctxmgr.errors import NotFound
from tests.core.values import object_ids

Steps: TypeAlias = list[tuple[str, str]]

OPERATIONS: Final = (
    "discover",
    "written",
    "read",
    "created",
    "activate",
    "deactivate",
    "pin",
    "unpin",
)
steps: Final = st.lists(st.tuples(st.sampled_from(OPERATIONS), object_ids), max_size=20)


def after(session: Session, done: Steps) -> Session:
    """The session after these steps; what it has not met cannot be changed."""
    for operation, object_id in done:
        try:
            session = getattr(session, operation)(object_id)
        except NotFound:
            assert object_id not in session.session_index
    return session
