"""Reads sessions of Gemini CLI: messages, one record per line, that later records change. Pure.

    {"sessionId": …}        the header; resuming a session repeats it
    {"id": …, "type": …}    a message; another record with its id replaces it
    {"$set": {…}}           may list all messages, as after a resume or a compression
    {"$rewindTo": id}       removes this message and those after it

A list of all messages lacks what the model does not need, such as statuses; so a message that is
known already stays as it was recorded first. Summaries of compressions are left out. Older versions
wrote one object with ``messages``. A tool call has its result with it; the message of the user that
repeats the results is skipped.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import Usage
from ctxmgr.recordings.recorder import IMAGE, Recorder, milliseconds

NAME: Final = "gemini"

Entry = Mapping[str, Any]

_CONTEXT: Final = "<session_context>"
_SUMMARY: Final = "<state_snapshot>"
_ANSWERS: Final = frozenset({"gemini", "model"})
_EXIT_CODE: Final = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
_SHELL: Final = "run_shell_command"


def recognises(entries: Sequence[Entry]) -> bool:
    if not entries:
        return False
    first = entries[0]
    has_header = "sessionId" in first and "projectHash" in first
    return has_header or all(
        entry.get("type") in {*_ANSWERS, "user", "info", "error", "warning"}
        and "timestamp" in entry
        and "content" in entry
        and "message" not in entry
        for entry in entries
    )


def selected(entries: Sequence[Entry]) -> Iterable[tuple[int, Entry]]:
    """Return the header and the messages that are left after all records were applied."""
    messages: dict[str, tuple[int, Entry]] = {}
    for n, entry in enumerate(entries):
        if "$rewindTo" in entry:
            ids = list(messages)
            rewound = ids.index(entry["$rewindTo"]) if entry["$rewindTo"] in messages else 0
            for message_id in ids[rewound:]:
                del messages[message_id]
        elif "$set" in entry:
            for message in entry["$set"].get("messages") or ():
                messages.setdefault(message["id"], (n, message))
        elif "type" in entry and "id" in entry:
            messages[entry["id"]] = (n, entry)
    header = [(0, entries[0])] if entries and "sessionId" in entries[0] else []
    return [*header, *messages.values()]


def read(entry: Entry, recorder: Recorder) -> None:
    if "type" not in entry:
        recorder.recorded_id = entry["sessionId"]
        return
    text = _text(entry.get("content"))
    if entry["type"] == "user":
        if text.lstrip().startswith(_CONTEXT):
            recorder.environment(text)
        elif not text.lstrip().startswith(_SUMMARY):
            recorder.user(text)
    elif entry["type"] in _ANSWERS:
        _answer(entry, text, recorder)


def _answer(entry: Entry, text: str, recorder: Recorder) -> None:
    timestamp = milliseconds(entry.get("timestamp"))
    recorder.answer(entry["id"], model=entry.get("model"), timestamp=timestamp)
    recorder.text(text)
    calls = entry.get("toolCalls") or ()
    for call in calls:
        recorder.call(call["id"], tool=call["name"], args=call.get("args") or {})
    for call in calls:
        output = "\n".join(map(_output, call.get("result") or ()))
        if call.get("result") is not None or call.get("status") not in {None, "executing"}:
            code = _EXIT_CODE.search(output) if call["name"] == _SHELL else None
            failed = call.get("status") in {"error", "cancelled"} or (
                code is not None and int(code[1]) != 0
            )
            recorder.result(
                call["id"],
                output=output,
                failed=failed,
                timestamp=milliseconds(call.get("timestamp")),
            )
    tokens = entry.get("tokens")
    if tokens:
        cached = tokens.get("cached") or 0
        recorder.usage(
            Usage(
                input_tokens=(tokens.get("input") or 0) - cached,
                cache_read_tokens=cached,
                output_tokens=(tokens.get("output") or 0) + (tokens.get("thoughts") or 0),
            )
        )


def _text(content: object) -> str:
    """Return the text of a message's content, which is text, one part or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "".join(map(_part_text, parts))


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if "inlineData" in part or "fileData" in part:
        return IMAGE
    return str(part.get("text") or "")


def _output(part: object) -> str:
    response = part.get("functionResponse") if isinstance(part, dict) else None
    if not isinstance(response, dict):
        return _part_text(part)
    values = response.get("response") or {}
    return str(values.get("output") or values.get("error") or "")
