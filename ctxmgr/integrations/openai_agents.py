"""A Session of the OpenAI Agents SDK, kept as a session of ctxmgr. Commits.

    add_items       one turn: what the user said, what was answered, every tool call as an object
    get_items       the same items again, in their order
    pop_item        ┐ state, in a document of its own: the chat only grows, and what was popped
    clear_session   ┘ or cleared stays in it

So the conversation can be looked at, searched, forked and gone on with like any other.
"""

from collections.abc import Mapping
from typing import Any, Self, cast

from ctxmgr import Match, NotFound, Put
from ctxmgr.core.client import Client
from ctxmgr.core.documents import Document
from ctxmgr.core.live_session import LiveSession
from ctxmgr.errors import ExtraMissing
from ctxmgr.integrations import openai_items
from ctxmgr.integrations.kinds import AGENTS_HISTORY
from ctxmgr.messages.conversation import ToolCallIds

try:
    from agents import SessionSettings, TResponseInputItem
except ImportError as error:
    raise ExtraMissing("openai-agents", extra="openai-agents") from error


class AgentsSession:
    """Give it to ``Runner.run(…, session=…)``. ``Conflict``: another client has just written."""

    def __init__(self, client: Client, session: LiveSession) -> None:
        self.session_id = session.session_id
        self.session_settings: SessionSettings | None = SessionSettings()
        self._store = client.store
        self._session = session
        self._state_id = f"{AGENTS_HISTORY}:{self.session_id}"

    @classmethod
    async def open(cls, client: Client, session_id: str, *, system_prompt: str = "") -> Self:
        """Go on with the session, or start it."""
        try:
            return cls(client, await client.resume(session_id))
        except NotFound:
            return cls(client, await client.start(session_id, system_prompt=system_prompt))

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items, or all of them, oldest first."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        shown = [part for _, part in self._shown(await self._state())]
        latest = shown if limit is None else shown[max(0, len(shown) - max(0, limit)) :]
        calls = await self._store.get_many(part["output"] for part in latest if "output" in part)
        texts = {each: version.document["content"] for each, version in calls.items()}
        return [cast("TResponseInputItem", openai_items.item_of(part, texts)) for part in latest]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store the items as one turn."""
        if not items:
            return
        given = [openai_items.plain(each) for each in items]
        turn, taken = self._session.turn, self._session.sets.session_index
        ids = ToolCallIds(self.session_id, turn=turn, unique=False, taken=taken)
        parts: list[Document] = []
        for item in given:
            asked = self._asked(item, parts)
            part = await self._record(item, asked) if asked else openai_items.part_of(item, ids)
            parts.append(part)
        await self._session.end_turn(parts, user=openai_items.user_text(given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Leave the newest item out from now on, and return it."""
        newest, state = await self.get_items(1), await self._state()
        if not newest:
            return None
        place, _ = self._shown(state)[-1]
        await self._save(state | {"popped": [*state["popped"], place]})
        return newest[0]

    async def clear_session(self) -> None:
        """Leave out all there is. Nothing is erased."""
        await self._save(await self._state() | {"start": len(self._parts()), "popped": []})

    def _parts(self) -> list[Mapping[str, Any]]:
        turns = self._session.chat.turns
        return [part for turn in turns for part in turn.assistant if "item" in part]

    def _shown(self, state: Document) -> list[tuple[int, Mapping[str, Any]]]:
        popped, placed = set(state["popped"]), enumerate(self._parts())
        return [(n, part) for n, part in placed if n >= state["start"] and n not in popped]

    def _asked(self, item: Document, newest: list[Document]) -> Mapping[str, Any] | None:
        """Return the call that an output is the first to answer."""
        if not openai_items.is_output(item):
            return None
        parts = reversed([*self._parts(), *newest])
        asked = next((each for each in parts if each.get("call_id") == item.get("call_id")), None)
        known = self._session.sets.session_index
        return None if asked is None or asked["toolcall_id"] in known else asked

    async def _record(self, item: Document, asked: Mapping[str, Any]) -> Document:
        part, text = openai_items.output_part(item, toolcall_id=asked["toolcall_id"])
        tool, args = asked["tool"], asked["args"]
        await self._session.record(asked["toolcall_id"], tool=tool, args=args, output=text)
        return part

    async def _state(self) -> Document:
        """Return which of the items are shown, with the token of the version read."""
        version = await self._store.get(self._state_id)
        if version is None:
            return {"start": 0, "popped": [], "token": None}
        return {**version.document, "token": version.token}

    async def _save(self, state: Document) -> None:
        token = state.pop("token")
        named = {"xt/id": self._state_id, "type": AGENTS_HISTORY, "session": self.session_id}
        await self._store.commit([Match(self._state_id, token), Put({**state, **named})])
