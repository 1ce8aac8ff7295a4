"""Reads arrays of messages in Anthropic's or OpenAI's form, or one message per line. Pure.

The array may be part of a request, whose ``system``, ``model`` and ``id`` are read. Assistant
messages may include the ``usage`` and ``model`` of the reply. Both forms may be mixed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import read_usage
from ctxmgr.recordings.recorder import Recorder, content_text, milliseconds, parse_args

ANTHROPIC: Final = "anthropic"
OPENAI: Final = "openai"

Entry = Mapping[str, Any]


def recognises_anthropic(entries: Sequence[Entry]) -> bool:
    return recognises_openai(entries) and any(map(_is_anthropic, entries))


def recognises_openai(entries: Sequence[Entry]) -> bool:
    return bool(entries) and all("role" in entry for entry in entries)


def selected(entries: Sequence[Entry]) -> Iterable[tuple[int, Entry]]:
    return enumerate(entries)


def read(entry: Entry, recorder: Recorder) -> None:
    content = entry.get("content")
    match entry["role"]:
        case "system" | "developer":
            recorder.system(content_text(content))
        case "user":
            for block in content if isinstance(content, list) else ():
                if isinstance(block, dict) and block.get("type") == "tool_result":
                    recorder.result(
                        block["tool_use_id"],
                        output=content_text(block.get("content")),
                        failed=bool(block.get("is_error")),
                    )
            recorder.user(content_text(content))
        case "assistant":
            _answer(entry, content, recorder)
        case "tool" | "function":
            call_id = entry.get("tool_call_id") or entry["name"]
            recorder.result(call_id, output=content_text(content))
        case role:
            raise ValueError(f"unknown role {role!r:.80}")


def _is_anthropic(message: Entry) -> bool:
    content = message.get("content")
    kinds = (
        {block.get("type") for block in content if isinstance(block, dict)}
        if isinstance(content, list)
        else set()
    )
    return bool(kinds & {"tool_use", "tool_result", "thinking"})


def _answer(entry: Entry, content: object, recorder: Recorder) -> None:
    timestamp = milliseconds(entry.get("timestamp"))
    recorder.answer(model=entry.get("model"), timestamp=timestamp)
    if isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and block.get("type") == "tool_use":
                recorder.call(block["id"], tool=block["name"], args=block["input"])
            else:
                recorder.text(content_text([block]))
    else:
        recorder.text(content_text(content))
    for call in entry.get("tool_calls") or ():
        function = call.get("function") or call["custom"]
        args = function.get("arguments", function.get("input"))
        recorder.call(call["id"], tool=function["name"], args=parse_args(args))
    usage = read_usage(entry.get("usage"))
    if usage is not None:
        recorder.usage(usage)
