"""Sessions of any size, built in a store at once instead of turn by turn. Commits.

    chat     turns of two messages, each with as many tool calls as are asked for
    pool     these tool calls, and whatever else is given
    index    the pool, and objects that it does not show

What comes out is what a client would have stored, so that it can be resumed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Final

from ctxmgr.core.contents import File, ToolCall
from ctxmgr.core.envelopes import chat_id
from ctxmgr.core.infrastructure import Chat, SessionRecord, SystemPrompt, Turn
from ctxmgr.core.objects import to_document
from ctxmgr.core.store import Put, Store

MESSAGE_CHARS: Final = 300
OUTPUT_CHARS: Final = 1_000
TEXT_CHARS_MAX: Final = 4_096
"""The longest filler that is asked for at once: a file."""

_COMMIT_OBJECTS: Final = 1_000
_STARTS: Final = 1_024
"""Places in a page at which a text may start."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789       "


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a session is to be."""

    session_id: str
    calls: int
    """Tool calls in the chat, and so in the pool."""
    calls_per_turn: int = 1
    active: int
    """The newest tool calls, so many of them, are shown in full."""
    files: Sequence[File] = ()
    """In the pool besides the tool calls; the first half of what is active is of these."""
    unseen: int = 0
    """Tool calls of other chats that are in the index alone."""


class Filler:
    """Text that does not repeat, the same every time."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)  # noqa: S311 - filler, no secret
        chars = _STARTS + TEXT_CHARS_MAX
        self._pages = ["".join(self._random.choices(_LETTERS, k=chars)) for _ in range(16)]

    def text(self, length: int) -> str:
        assert length <= TEXT_CHARS_MAX, "a page has no more than that"
        page, start = self._random.choice(self._pages), self._random.randrange(_STARTS)
        return page[start : start + length]

    def turn(self, *toolcall_ids: str) -> Turn:
        answer = {"type": "text", "text": self.text(MESSAGE_CHARS)}
        user = self.text(MESSAGE_CHARS)
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


async def build_session(store: Store, plan: Plan) -> SessionRecord:
    """Store a session with all its objects."""
    filler, chat = Filler(plan.session_id), chat_id(plan.session_id)
    made = [f"{plan.session_id}-{number}" for number in range(plan.calls)]
    unseen = [f"{plan.session_id}-unseen-{number}" for number in range(plan.unseen)]
    calls = (filler.toolcall(each, chat_ref=chat) for each in made)
    others = (filler.toolcall(each, chat_ref="chat:another") for each in unseen)
    for objects in (plan.files, calls, others):
        await _store_all(store, objects)
    shown = _shown(plan, made)
    pool = (*(each.object_id for each in plan.files), *made)
    record = SessionRecord(
        session_id=plan.session_id,
        session_index=(*unseen, *pool),
        metadata_pool=pool,
        active_set=shown,
    )
    step = plan.calls_per_turn
    turns = tuple(filler.turn(*made[at : at + step]) for at in range(0, len(made), step))
    prompt = SystemPrompt(session_id=plan.session_id, content=filler.text(OUTPUT_CHARS))
    parts = (prompt, Chat(session_id=plan.session_id, turns=turns), record)
    await store.commit([Put(to_document(each)) for each in parts])
    return record


def _shown(plan: Plan, made: list[str]) -> tuple[str, ...]:
    files = [each.object_id for each in plan.files[: plan.active // 2]]
    return (*files, *made[len(made) - (plan.active - len(files)) :])


async def _store_all(store: Store, objects: Iterable[File | ToolCall]) -> None:
    for batch in _batches(objects):
        await store.commit([Put(to_document(each)) for each in batch])


def _batches(objects: Iterable[File | ToolCall]) -> Iterator[list[File | ToolCall]]:
    source = iter(objects)
    while batch := list(islice(source, _COMMIT_OBJECTS)):
        yield batch
