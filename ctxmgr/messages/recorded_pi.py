"""Sessions of the pi coding agent: a header, then entries, since version 2 as a tree. Pure.

Of a tree, the branch that ends in the file's last message is read. What compaction left out of a
later prompt was seen before it, and is part of the recording.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import Usage
from ctxmgr.messages.recorded import Recorder
from ctxmgr.messages.recorded_blocks import content_text, milliseconds

NAME: Final = "pi"

Entry = Mapping[str, Any]


def recognises(entries: Sequence[Entry]) -> bool:
    return bool(entries) and entries[0].get("type") == "session" and "cwd" in entries[0]


def wanted(entries: Sequence[Entry]) -> set[int]:
    """Return the positions of the entries on the branch that is read."""
    by_id = {each["id"]: n for n, each in enumerate(entries) if "parentId" in each}
    if not by_id:
        return set(range(len(entries)))
    ends = [n for n, each in enumerate(entries) if each.get("type") == "message"]
    branch: set[int] = set()
    at = ends[-1] if ends else None
    while at is not None and at not in branch:
        branch.add(at)
        at = by_id.get(entries[at].get("parentId"))
    return branch | {0}


def read(entry: Entry, recorder: Recorder) -> None:
    match entry["type"]:
        case "session":
            recorder.recorded_id = entry["id"]
            recorder.model = entry.get("modelId")
        case "model_change":
            recorder.model = entry.get("modelId")
        case "custom_message":
            recorder.user(content_text(entry["content"]))
        case "message":
            _message(entry["message"], recorder)


def _message(message: Entry, recorder: Recorder) -> None:
    match message["role"]:
        case "user" | "custom" | "hookMessage":
            recorder.user(content_text(message["content"]))
        case "bashExecution":
            recorder.user(f"$ {message['command']}\n{message.get('output', '')}")
        case "assistant":
            _answer(message, recorder)
        case "toolResult":
            recorder.result(
                message["toolCallId"],
                output=content_text(message["content"]),
                failed=bool(message.get("isError")),
            )


def _answer(message: Entry, recorder: Recorder) -> None:
    usage = _usage(message.get("usage"))
    if not message["content"] and (usage is None or not usage.prompt_tokens):
        return  # the request was stopped before it reached the model
    recorder.answer(model=message.get("model"), timestamp=milliseconds(message.get("timestamp")))
    for block in message["content"]:
        match block["type"]:
            case "text":
                recorder.text(block["text"])
            case "toolCall":
                recorder.call(block["id"], tool=block["name"], args=block["arguments"])
    if usage is not None:
        recorder.usage(usage)


def _usage(usage: Entry | None) -> Usage | None:
    if not usage:
        return None
    return Usage(
        input_tokens=usage.get("input", 0),
        cache_read_tokens=usage.get("cacheRead", 0),
        cache_written_tokens=usage.get("cacheWrite", 0),
        output_tokens=usage.get("output", 0),
    )
