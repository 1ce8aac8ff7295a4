"""Reads transcripts of Claude Code, which have one entry per content block of an answer. Pure.

Blocks with the same message id are one answer and one turn. Entries of subagents (``isSidechain``),
duplicate entries and error notices are skipped. Text that Claude Code added to the user's message
is kept, because the model saw it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import anthropic_usage
from ctxmgr.recordings.recorder import Recorder, content_text, milliseconds

NAME: Final = "claude-code"

SYNTHETIC: Final = "<synthetic>"
"""The model name in answers that Claude Code wrote itself."""

Entry = Mapping[str, Any]


def recognises(entries: Sequence[Entry]) -> bool:
    return any(
        "sessionId" in entry and entry.get("type") in {"user", "assistant"} for entry in entries
    )


def wanted(entries: Sequence[Entry]) -> set[int]:
    """Return the positions of the main conversation's entries, without duplicates."""
    positions: dict[str, int] = {}
    for position, entry in enumerate(entries):
        if entry.get("type") in {"user", "assistant"} and not entry.get("isSidechain"):
            positions.setdefault(str(entry.get("uuid", position)), position)
    return set(positions.values())


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
