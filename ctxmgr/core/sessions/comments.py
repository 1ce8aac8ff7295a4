"""The comments that people write on turns. Commits.

A comment is a plain document ``comment:{session}:{turn}``. No prompt shows it, and no bundle holds
it: it says what a person thought of a turn when they looked at it in this store.
"""

from collections.abc import Iterable
from typing import Final

from ctxmgr.core.objects.envelope import check_short_text
from ctxmgr.core.store.contract import Delete, Put, Store, Version
from ctxmgr.core.store.documents import ID, KIND
from ctxmgr.core.store.queries import batched

COMMENT: Final = "comment"
COMMENT_BYTES_MAX: Final = 4_000
"""Of a comment in UTF-8: it is shown beside a turn."""

BATCH: Final = 500


def comment_id(session_id: str, turn: int) -> str:
    return f"{COMMENT}:{session_id}:{turn}"


async def comments_on(store: Store, session_id: str, turns: Iterable[int]) -> dict[int, str]:
    """Return the comments on some turns of a session."""
    ids = {comment_id(session_id, turn): turn for turn in turns}
    found: dict[int, str] = {}
    for batch in batched(list(ids), BATCH):
        for object_id, version in (await store.get_many(batch)).items():
            if (comment := _comment(version)) is not None:
                found[ids[object_id]] = comment
    return found


async def set_comment(store: Store, session_id: str, turn: int, comment: str) -> None:
    """Comment on a turn, instead of what was said before; an empty text removes the comment."""
    object_id = comment_id(session_id, turn)
    if not comment.strip():
        await store.commit([Delete(object_id)])
        return
    check_short_text(COMMENT, comment, bytes_max=COMMENT_BYTES_MAX)
    document = {ID: object_id, KIND: COMMENT, "session": session_id, "n": turn, COMMENT: comment}
    await store.commit([Put(document)])


def _comment(version: Version) -> str | None:
    """Read a stored comment; None if another program wrote something else."""
    comment = version.document.get(COMMENT)
    return comment if isinstance(comment, str) else None
