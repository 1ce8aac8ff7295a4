"""A session as an agent makes it, saved after every turn. Pure.

Every turn says 2 KB and calls one tool. The chat and the session documents are put again each time,
whole, as the client does it; what that costs is the store's business.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from ctxmgr.core.infrastructure import Chat, SessionRecord, Turn
from ctxmgr.core.objects import to_document
from ctxmgr.core.store import Put

USER_CHARS: Final = 248
ANSWER_CHARS: Final = 1_800
"""With the user's they make 2 KB a turn."""

WINDOW: Final = 15
"""Tool calls in the active set: five a turn for three turns."""

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789       "


@dataclass(frozen=True, slots=True)
class SavedTurn:
    puts: list[Put]
    payload_bytes: int
    """The text and the id that this turn brought: what it must cost at least."""


def saved_turns(session_id: str, *, turns: int) -> Iterator[SavedTurn]:
    """Grow one session turn by turn."""
    random = Random(session_id)  # noqa: S311 - filler that does not repeat, the same every time
    chat = Chat(session_id=session_id)
    met: tuple[str, ...] = ()
    for _ in range(turns):
        toolcall_id = f"toolu_{random.randbytes(12).hex()}"
        user, answer = _text(random, USER_CHARS), _text(random, ANSWER_CHARS)
        chat = chat.append(
            Turn(
                user=user,
                assistant=({"type": "text", "text": answer},),
                toolcall_ids=(toolcall_id,),
            )
        )
        met = (*met, toolcall_id)
        session = SessionRecord(
            session_id=session_id, session_index=met, metadata_pool=met, active_set=met[-WINDOW:]
        )
        yield SavedTurn(
            [Put(to_document(chat)), Put(to_document(session))],
            len(user) + len(answer) + len(toolcall_id),
        )


def _text(random: Random, length: int) -> str:
    return "".join(random.choices(_LETTERS, k=length))
