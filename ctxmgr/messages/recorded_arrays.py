"""Message arrays as they are sent to Anthropic's and OpenAI's APIs, or kept one per line. Pure.

A request may stand around the array: its ``system``, ``model`` and ``id`` are read. An assistant's
message may carry the ``usage`` and ``model`` of its reply. Both APIs' messages may be mixed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.usage import read_usage
from ctxmgr.messages.recorded import Recorder
from ctxmgr.messages.recorded_blocks import (
    content_text,
    milliseconds,
    parsed_args,
)

ANTHROPIC: Final = "anthropic"
OPENAI: Final = "openai"

Entry = Mapping[str, Any]


def recognises_anthropic(entries: Sequence[Entry]) -> bool:
    return recognises_openai(entries) and any(_is_anthropic(each) for each in entries)


def recognises_openai(entries: Sequence[Entry]) -> bool:
    return bool(entries) and all("role" in each for each in entries)


def wanted(entries: Sequence[Entry]) -> set[int]:
    return set(range(len(entries)))


def read(entry: Entry, recorder: Recorder) -> None:
    content = entry.get("content")
    match entry["role"]:
        case "system" | "developer":
            recorder.system(content_text(content))
        case "user":
            _results(content, recorder)
            recorder.user(content_text(content))
        case "assistant":
            _answer(entry, content, recorder)
        case "tool" | "function":
            call_id = entry.get("tool_call_id") or entry["name"]
            recorder.result(call_id, output=content_text(content))
        case role:
            raise ValueError(f"{role!r:.80} is no role of a message")


def _is_anthropic(message: Entry) -> bool:
    content = message.get("content")
    kinds = (
        {block.get("type") for block in content if isinstance(block, dict)}
        if isinstance(content, list)
        else set()
    )
    return bool(kinds & {"tool_use", "tool_result", "thinking"})


def _results(content: object, recorder: Recorder) -> None:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            recorder.result(
                block["tool_use_id"],
                output=content_text(block.get("content")),
                failed=bool(block.get("is_error")),
            )


def _answer(entry: Entry, content: object, recorder: Recorder) -> None:
    timestamp = milliseconds(entry.get("timestamp"))
    recorder.answer(model=entry.get("model"), timestamp=timestamp)
    if isinstance(content, list):
        for block in content:
            _block(block, recorder)
    else:
        recorder.text(content_text(content))
    for call in entry.get("tool_calls") or ():
        function = call.get("function") or call["custom"]
        args = function.get("arguments", function.get("input"))
        recorder.call(call["id"], tool=function["name"], args=parsed_args(args))
    usage = read_usage(entry.get("usage"))
    if usage is not None:
        recorder.usage(usage)


def _block(block: Any, recorder: Recorder) -> None:
    if isinstance(block, dict) and block.get("type") == "tool_use":
        recorder.call(block["id"], tool=block["name"], args=block["input"])
    else:
        recorder.text(content_text([block]))
