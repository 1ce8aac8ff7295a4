"""Transcripts of Claude Code: one entry per content block of an answer. Pure.

Blocks of one answer share their message's id and are one turn. Entries of other agents that worked
for this one (``isSidechain``), copies of an entry, and notices of errors are left out; what the
harness put before the user's words is what the model saw, and stays.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.usage import anthropic_usage
from ctxmgr.messages.recorded import Recorder
from ctxmgr.messages.recorded_blocks import content_text, milliseconds

NAME: Final = "claude-code"

SYNTHETIC: Final = "<synthetic>"
"""The model of answers that the harness wrote itself."""

Entry = Mapping[str, Any]


def recognises(entries: Sequence[Entry]) -> bool:
    return any(
        "sessionId" in each and each.get("type") in {"user", "assistant"} for each in entries
    )


def wanted(entries: Sequence[Entry]) -> set[int]:
    """Return the positions of the entries that are read: each once, of this conversation."""
    seen: dict[str, int] = {}
    for n, entry in enumerate(entries):
        if entry.get("type") in {"user", "assistant"} and not entry.get("isSidechain"):
            seen.setdefault(str(entry.get("uuid", n)), n)
    return set(seen.values())


def read(entry: Entry, recorder: Recorder) -> None:
    recorder.recorded_id = entry.get("sessionId")
    message = entry["message"]
    if entry["type"] == "user":
        _user(message["content"], recorder)
    elif message.get("model") != SYNTHETIC and not entry.get("isApiErrorMessage"):
        _answer(entry, message, recorder)


def _user(content: object, recorder: Recorder) -> None:
    if not isinstance(content, list):
        recorder.user(content_text(content))
        return
    for block in content:
        if block["type"] == "tool_result":
            recorder.result(
                block["tool_use_id"],
                output=content_text(block.get("content")),
                failed=bool(block.get("is_error")),
            )
    recorder.user(content_text(content))


def _answer(entry: Entry, message: Entry, recorder: Recorder) -> None:
    recorder.answer(
        message.get("id"),
        model=message.get("model"),
        timestamp=milliseconds(entry.get("timestamp")),
    )
    for block in message["content"]:
        match block["type"]:
            case "text":
                recorder.text(block["text"])
            case "tool_use":
                recorder.call(block["id"], tool=block["name"], args=block["input"])
    usage = anthropic_usage(message.get("usage"))
    if usage is not None:
        recorder.usage(usage)
