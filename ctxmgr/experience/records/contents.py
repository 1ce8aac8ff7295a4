"""What is recorded of a store's events: ids, sessions and contents that can be stored. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.timestep import check_session_id

EVENT_CHARS_MAX: Final = 1_000_000
"""Characters of one event that are recorded; of a longer one, its beginning and its hash."""


def input_id(turn: int) -> str:
    """Return the event id of what a user said in a turn."""
    return f"input-{turn}"


def answer_id(turn: int) -> str:
    """Return the event id of a turn's answer."""
    return f"answer-{turn}"


def answer_text(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of an answer; its tool calls are events of their own."""
    return "".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")


def recorded_session(session_id: str) -> str:
    """Return the id under which a session is recorded: its own, or a hash if that is not usable."""
    try:
        check_session_id(session_id)
    except Incorrect:
        return f"session-{hashlib.sha256(session_id.encode(errors='replace')).hexdigest()[:32]}"
    return session_id


def storable(content: str) -> str:
    """Return a content that can be stored: bounded, and without halves of characters."""
    content = content.encode(errors="replace").decode()
    if len(content) <= EVENT_CHARS_MAX:
        return content
    shortened = {
        "chars": len(content),
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "begins": content[:EVENT_CHARS_MAX],
    }
    return as_json(shortened)


def as_json(value: Mapping[str, Any]) -> str:
    """Return a value as JSON."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # an integer of more than 64 bits, which a store may hold
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
