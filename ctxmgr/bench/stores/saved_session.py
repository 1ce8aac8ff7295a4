"""A synthetic session that is saved after every turn. Pure.

Every turn has 2 KB of text and one tool call. Chat and session are put whole each time, as the
client does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.session_record import SessionRecord
from ctxmgr.core.store.contract import Put

USER_CHARS: Final = 248
ANSWER_CHARS: Final = 1_800
"""With the user's text, 2 KB per turn."""

WINDOW: Final = 15
"""Tool calls in the active set: five per turn for three turns."""

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789       "


@dataclass(frozen=True, slots=True)
class SavedTurn:
    puts: list[Put]
    payload_bytes: int
    """The size of the turn's new text and id: the minimum that storing it takes."""


def saved_turns(session_id: str, *, turns: int) -> Iterator[SavedTurn]:
    """Yield the writes of each turn of a growing session."""
    random = Random(session_id)  # noqa: S311 (filler, reproducible)
    chat = Chat(session_id=session_id)
    ids: tuple[str, ...] = ()
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
        ids = (*ids, toolcall_id)
        session = SessionRecord(
            session_id=session_id, session_index=ids, metadata_pool=ids, active_set=ids[-WINDOW:]
        )
        yield SavedTurn(
            [Put(to_document(chat)), Put(to_document(session))],
            len(user) + len(answer) + len(toolcall_id),
        )


def _text(random: Random, length: int) -> str:
    return "".join(random.choices(_LETTERS, k=length))
