"""A ``Session`` of the OpenAI Agents SDK, stored as a session of ctxmgr. Commits.

    add_items       one turn: the user's text, the answer, and every tool call as an object
    get_items       the same items, in their order
    pop_item        ┐ recorded in a separate document: the chat only grows, and keeps items that
    clear_session   ┘ were popped or cleared

The conversation can be inspected, searched, forked and resumed like any other. Items become parts
of a turn's answer:

    function_call          a toolcall part
    function_call_output   its text is the content of the tool call; the part refers to that object
    assistant message      a text part
    other                  kept, but only the SDK sees it

Every part keeps its item, so that the SDK gets back exactly what it stored. Until the first write,
items are read from the chat alone, each time as it is stored then; the first write resumes the
session, which verifies all of it. What other clients have stored since is read before each use, and
an append that collides with theirs is repeated.

``ThreadedAgentsSession`` is for ``Runner.run_sync``.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self, TypeAlias, cast

from ctxmgr import (
    Client,
    Conflict,
    Corrupt,
    ExtraMissing,
    Incorrect,
    LiveSession,
    Match,
    Put,
    connect,
)
from ctxmgr.core.collector import collector_paused
from ctxmgr.core.history.reading import is_stored, stored_answers
from ctxmgr.core.store.documents import Document, storable
from ctxmgr.integrations.document_kinds import AGENTS_HISTORY
from ctxmgr.integrations.loop_thread import LoopThread
from ctxmgr.messages.answers import ToolCallIds, read_call

try:
    from agents import SessionSettings, TResponseInputItem
except ImportError as error:
    raise ExtraMissing(extra="openai-agents") from error

Item: TypeAlias = dict[str, Any]

_OUTPUT: Final = "function_call_output"

ATTEMPTS_MAX: Final = 100
"""Of one write that collides with those of other clients, each of which then has succeeded."""

WAIT_S_MAX: Final = 0.1
"""Before another attempt, at most; the mean grows with their number."""


class AgentsSession:
    """A session for ``Runner.run(…, session=…)``.

    Several clients may use it at once: a write that collides with another is repeated.
    """

    def __init__(self, client: Client, session: LiveSession | str) -> None:
        """Take an open session, or the id of a stored one, which the first write resumes."""
        live = None if isinstance(session, str) else session
        self.session_id = session if isinstance(session, str) else session.session_id
        self.session_settings: SessionSettings | None = SessionSettings()
        self._client = client
        self._store = client.store
        self._live = live
        self._state_id = f"{AGENTS_HISTORY}:{self.session_id}"
        self._known: list[Mapping[str, Any]] = []
        """The parts with an item of the first ``_turns_read`` turns."""
        self._calls: dict[Any, Mapping[str, Any]] = {}
        """Call id → the last of these parts that has it."""
        self._turns_read = 0

    @classmethod
    async def open(cls, client: Client, session_id: str, *, system_prompt: str = "") -> Self:
        """Open the stored session, or start it if it does not exist."""
        if await is_stored(client.store, session_id):
            return cls(client, session_id)
        return cls(client, await client.start(session_id, system_prompt=system_prompt))

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items, or all of them, oldest first."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        with collector_paused():
            parts = [part for _, part in await self._visible(await self._state())]
            latest = parts if limit is None else parts[max(0, len(parts) - max(0, limit)) :]
            return cast("list[TResponseInputItem]", await self._items(latest))

    async def _items(self, parts: list[Mapping[str, Any]]) -> list[Item]:
        """Return the items of some parts, which the SDK may change."""
        recorded = [part["output"] for part in parts if "output" in part]
        calls = await self._store.get_many(recorded) if recorded else {}
        items: list[Item] = [part["item"] for part in parts]
        if self._live is not None:
            items = json.loads(json.dumps(items))
        contents = {call_id: call.document.get("content") for call_id, call in calls.items()}
        for part, item in zip(parts, items, strict=True):
            if "output" in part:
                text = contents.get(part["output"])
                if not isinstance(text, str):
                    raise Corrupt(f"the output of tool call {part['output']!r:.80} is missing")
                item["output"] = text if part["as_text"] else json.loads(text)
        return items

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store the items as one turn."""
        if not items:
            return
        new: list[Item] = [storable(json.loads(json.dumps(item))) for item in items]
        live = await self._resumed()
        if _answers_earlier_call(new):
            await live.refresh()  # the call may be another client's
        try:
            parts = await self._recorded_parts(live, new)
        except Incorrect:  # another client may have used this turn's number for a call with this id
            if not await live.refresh():
                raise
            parts = await self._recorded_parts(live, new)
        texts = (_text_of(item.get("content")) for item in new if item.get("role") == "user")
        user = "\n".join(text for text in texts if text)
        async for attempt in _attempts():
            try:
                await live.end_turn(parts, user=user)
            except Conflict:  # the session holds the turn of the other client now
                if attempt == ATTEMPTS_MAX:
                    raise
            else:
                return

    async def _recorded_parts(self, live: LiveSession, items: list[Item]) -> list[Document]:
        """Record the outputs among the items, and return the parts for all of them."""
        turn, taken = live.turn, live.sets.session_index
        ids = ToolCallIds(self.session_id, turn=turn, unique=False, taken=taken)
        parts: list[Document] = []
        for item in items:
            call = self._unanswered_call(live, item, parts)
            recorded = None if call is None else await _record(live, item, call)
            parts.append(recorded or _part_of(item, ids))
        return parts

    async def pop_item(self) -> TResponseInputItem | None:
        """Hide the latest item from now on, and return it."""
        async for attempt in _attempts():
            state = await self._state()
            visible = await self._visible(state)
            if not visible:
                return None
            (latest,) = await self._items([visible[-1][1]])
            try:
                await self._save(state | {"popped": [*state["popped"], visible[-1][0]]})
            except Conflict:  # another client has popped this item
                if attempt == ATTEMPTS_MAX:
                    raise
            else:
                return cast("TResponseInputItem", latest)
        return None

    async def clear_session(self) -> None:
        """Hide all items. Nothing is erased."""
        async for attempt in _attempts():
            state = await self._state()
            parts = await self._parts()
            try:
                await self._save(state | {"start": len(parts), "popped": []})
            except Conflict:
                if attempt == ATTEMPTS_MAX:
                    raise
            else:
                return

    async def _resumed(self) -> LiveSession:
        """Return the open session; one that was only read is resumed, and verified."""
        if self._live is None:
            self._live = await self._client.resume(self.session_id)
        return self._live

    async def _parts(self) -> list[Mapping[str, Any]]:
        """Return the parts with an item, as they are stored now."""
        if self._live is not None:
            await self._live.refresh()
            return self._known_parts(self._live)
        answers = await stored_answers(self._store, self.session_id)
        return [part for parts in answers for part in parts if "item" in part]

    def _known_parts(self, live: LiveSession) -> list[Mapping[str, Any]]:
        """Return the parts of an open session; a chat only grows, so only new turns are read."""
        turns = live.chat.turns
        for turn in turns[self._turns_read :]:
            for part in turn.assistant:
                if "item" in part:
                    self._known.append(part)
                if "item" in part and "call_id" in part:
                    self._calls[part["call_id"]] = part
        self._turns_read = len(turns)
        return self._known

    async def _visible(self, state: Document) -> list[tuple[int, Mapping[str, Any]]]:
        """Return the parts that were neither popped nor cleared, with their positions."""
        popped, numbered = set(state["popped"]), enumerate(await self._parts())
        return [(n, part) for n, part in numbered if n >= state["start"] and n not in popped]

    def _unanswered_call(
        self, live: LiveSession, item: Document, new_parts: list[Document]
    ) -> Mapping[str, Any] | None:
        """Return the call that an output belongs to, if it is the call's first output."""
        if item.get("type") != _OUTPUT:
            return None
        call_id = item.get("call_id")
        if not isinstance(call_id, str):
            return None
        self._known_parts(live)
        new = (part for part in reversed(new_parts) if part.get("call_id") == call_id)
        call = next(new, None) or self._calls.get(call_id)
        recorded = live.sets.session_index
        return None if call is None or call["toolcall_id"] in recorded else call

    async def _state(self) -> Document:
        """Return which items are hidden, with the token of the version that was read."""
        version = await self._store.get(self._state_id)
        if version is None:
            return {"start": 0, "popped": [], "token": None}
        return {**version.document, "token": version.token}

    async def _save(self, state: Document) -> None:
        token = state.pop("token")
        fields = {"xt/id": self._state_id, "type": AGENTS_HISTORY, "session": self.session_id}
        await self._store.commit([Match(self._state_id, token), Put({**state, **fields})])


class ThreadedAgentsSession:
    """A session for ``Runner.run_sync``: its store lives on an event loop in another thread.

    ``Runner.run_sync`` ends its event loop, or uses another, and a store belongs to one loop.
    """

    def __init__(self, thread: LoopThread[AgentsSession]) -> None:
        self._thread = thread

    @classmethod
    def open(cls, url: str, session_id: str, *, system_prompt: str = "") -> Self:
        """Open the stored session of a store, or start it if it does not exist."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[AgentsSession]:
            async with connect(url, tracking=False) as client:
                yield await AgentsSession.open(client, session_id, system_prompt=system_prompt)

        return cls(LoopThread.holding(opened))

    @property
    def session_id(self) -> str:
        return self._thread.held.session_id

    @property
    def session_settings(self) -> SessionSettings | None:
        return self._thread.held.session_settings

    @session_settings.setter
    def session_settings(self, settings: SessionSettings | None) -> None:
        self._thread.held.session_settings = settings

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items, or all of them, oldest first."""
        return await self._thread.call(self._thread.held.get_items(limit))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store the items as one turn."""
        await self._thread.call(self._thread.held.add_items(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Hide the latest item from now on, and return it."""
        return await self._thread.call(self._thread.held.pop_item())

    async def clear_session(self) -> None:
        """Hide all items. Nothing is erased."""
        await self._thread.call(self._thread.held.clear_session())

    def close(self) -> None:
        """Close the store and end the thread."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _attempts() -> AsyncIterator[int]:
    """Count attempts from 1, with a random pause between them."""
    yield 1
    for attempt in range(2, ATTEMPTS_MAX + 1):
        await asyncio.sleep(random.uniform(0, min(WAIT_S_MAX, 0.002 * attempt)))  # noqa: S311
        yield attempt


async def _record(live: LiveSession, item: Document, call: Mapping[str, Any]) -> Document:
    """Record an output as its call's content, and return the part that refers to it."""
    toolcall_id, output = call["toolcall_id"], item.get("output", "")
    as_text = isinstance(output, str)
    text = output if as_text else json.dumps(output)
    await live.record(toolcall_id, tool=call["tool"], args=call["args"], output=text)
    rest = {name: value for name, value in item.items() if name != "output"}
    return {"type": "item", "item": rest, "output": toolcall_id, "as_text": as_text}


def _answers_earlier_call(items: list[Item]) -> bool:
    """Whether an item is the output of a call that is not among the items."""
    called = [item.get("call_id") for item in items if item.get("type") != _OUTPUT]
    return any(item.get("type") == _OUTPUT and item.get("call_id") not in called for item in items)


def _part_of(item: Item, ids: ToolCallIds) -> Document:
    """Return the part for an item that is not the first output of a call."""
    if item.get("type") == "function_call":
        args = item.get("arguments")
        with suppress(ValueError):
            args = json.loads(str(args or "{}"))
        call = read_call(item.get("call_id"), name=item.get("name"), args=args, ids=ids)
        return {**call, "item": item}
    if item.get("role") == "assistant":
        return {"type": "text", "text": _text_of(item.get("content")), "item": item}
    return {"type": "item", "item": item}


def _text_of(content: object) -> str:
    """Return the text of a message's content, which is text or a list of blocks."""
    if isinstance(content, list):
        return "".join(str(block.get("text") or "") for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""
