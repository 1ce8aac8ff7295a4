"""Builds sessions of any size in a store at once instead of turn by turn. Commits.

    chat     turns of two messages, each with a given number of tool calls
    pool     these tool calls, and the given files
    index    the pool, and objects outside it

The result is what a client would have stored, so the session can be resumed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.envelope import chat_id
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import Put, Store
from ctxmgr.core.store.queries import batched

MESSAGE_CHARS: Final = 300
OUTPUT_CHARS: Final = 1_000
TEXT_CHARS_MAX: Final = 4_096
"""The longest text that a filler returns: that of a file."""

_COMMIT_OBJECTS: Final = 1_000
_STARTS: Final = 1_024
"""Positions in a page at which a text may start."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789       "


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """The shape of a session."""

    session_id: str
    calls: int
    """Tool calls in the chat, all of which are in the pool."""
    calls_per_turn: int = 1
    active: int
    """Objects in the active set: files for up to half of it, and the newest tool calls."""
    files: Sequence[File] = ()
    """Files in the pool."""
    unseen: int = 0
    """Tool calls of other chats that are only in the index."""
    message_chars: int = MESSAGE_CHARS


class Filler:
    """Reproducible text that does not repeat."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)  # noqa: S311 (filler, not a secret)
        chars = _STARTS + TEXT_CHARS_MAX
        self._pages = ["".join(self._random.choices(_LETTERS, k=chars)) for _ in range(16)]

    def text(self, length: int) -> str:
        assert length <= TEXT_CHARS_MAX, "longer than a page"
        page, start = self._random.choice(self._pages), self._random.randrange(_STARTS)
        return page[start : start + length]

    def turn(self, *toolcall_ids: str, chars: int = MESSAGE_CHARS) -> Turn:
        answer = {"type": "text", "text": self.text(chars)}
        user = self.text(chars)
        return Turn(user=user, assistant=(answer,), toolcall_ids=toolcall_ids)

    def toolcall(self, toolcall_id: str, *, chat_ref: str) -> ToolCall:
        return ToolCall(
            toolcall_id=toolcall_id,
            tool="bash",
            args={"command": f"make test TARGET={toolcall_id}"},
            status="ok",
            chat_ref=chat_ref,
            content=self.text(OUTPUT_CHARS),
        )


async def build_session(store: Store, plan: SessionPlan) -> SessionRecord:
    """Store a session with all its objects."""
    filler, chat = Filler(plan.session_id), chat_id(plan.session_id)
    call_ids = [f"{plan.session_id}-{number}" for number in range(plan.calls)]
    unseen = [f"{plan.session_id}-unseen-{number}" for number in range(plan.unseen)]
    calls = (filler.toolcall(call_id, chat_ref=chat) for call_id in call_ids)
    others = (filler.toolcall(call_id, chat_ref="chat:another") for call_id in unseen)
    groups: tuple[Iterable[File | ToolCall], ...] = (plan.files, calls, others)
    for objects in groups:
        for batch in batched(objects, _COMMIT_OBJECTS):
            await store.commit([Put(to_document(value)) for value in batch])
    file_ids = [file.object_id for file in plan.files]
    active_files = file_ids[: plan.active // 2]
    active_calls = call_ids[len(call_ids) - (plan.active - len(active_files)) :]
    pool = (*file_ids, *call_ids)
    record = SessionRecord(
        session_id=plan.session_id,
        session_index=(*unseen, *pool),
        metadata_pool=pool,
        active_set=(*active_files, *active_calls),
    )
    step = plan.calls_per_turn
    turns = tuple(
        filler.turn(*call_ids[n : n + step], chars=plan.message_chars)
        for n in range(0, len(call_ids), step)
    )
    prompt = SystemPrompt(session_id=plan.session_id, content=filler.text(OUTPUT_CHARS))
    parts = (prompt, Chat(session_id=plan.session_id, turns=turns), record)
    await store.commit([Put(to_document(part)) for part in parts])
    return record
