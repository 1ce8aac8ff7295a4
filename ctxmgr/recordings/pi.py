"""Reads sessions of the pi coding agent: a header, then entries, a tree since version 2. Pure.

Of a tree, the branch that ends with the last message of the file is read. Messages that compaction
removed from later prompts are read as well, because the model saw them before.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import Usage
from ctxmgr.recordings.recorder import Recorder, content_text, milliseconds

NAME: Final = "pi"

Entry = Mapping[str, Any]


def recognises(entries: Sequence[Entry]) -> bool:
    return bool(entries) and entries[0].get("type") == "session" and "cwd" in entries[0]


def selected(entries: Sequence[Entry]) -> Iterable[tuple[int, Entry]]:
    """Return the header and the entries on the last branch."""
    by_id = {entry["id"]: n for n, entry in enumerate(entries) if "parentId" in entry}
    if not by_id:
        return enumerate(entries)
    messages = [n for n, entry in enumerate(entries) if entry.get("type") == "message"]
    branch: set[int] = set()
    position = messages[-1] if messages else None
    while position is not None and position not in branch:  # a damaged file may have a cycle
        branch.add(position)
        position = by_id.get(entries[position].get("parentId"))
    return [(n, entries[n]) for n in sorted(branch | {0})]


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
                timestamp=milliseconds(message.get("timestamp")),
            )
        case "system":
            _system(message, recorder)


def _system(message: Entry, recorder: Recorder) -> None:
    """Read a prompt, or a change of it: its text, then its sections by name (since 0.87)."""
    recorder.system(content_text(message.get("content")))
    for name, text in (message.get("sections") or {}).items():
        if not recorder.has_answers:
            recorder.system(text or "")
        elif text is None:
            recorder.system(f'Removed system prompt section "{name}".')
        else:
            recorder.system(f'Updated system prompt section "{name}":\n\n{text}')


def _answer(message: Entry, recorder: Recorder) -> None:
    usage = _usage(message.get("usage"))
    if not message["content"] and (usage is None or not usage.prompt_tokens):
        return  # the request was cancelled before it reached the model
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
