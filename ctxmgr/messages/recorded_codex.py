"""Rollouts of Codex: items as its API gives them, among events for its own screen. Pure.

An answer is a run of items: it ends where a result or the user's words follow. Of the events only
the token counts are read; the others repeat the items. In old rollouts items stand bare.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.usage import openai_usage
from ctxmgr.messages.recorded import Recorder
from ctxmgr.messages.recorded_blocks import content_text, milliseconds, parsed_args

NAME: Final = "codex"

Entry = Mapping[str, Any]

_WRAPPED: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})


def recognises(entries: Sequence[Entry]) -> bool:
    wrapped = any(each.get("type") in _WRAPPED and "payload" in each for each in entries)
    bare = bool(entries) and "instructions" in entries[0] and "type" not in entries[0]
    return wrapped or bare


def wanted(entries: Sequence[Entry]) -> set[int]:
    return set(range(len(entries)))


def read(entry: Entry, recorder: Recorder) -> None:
    timestamp = milliseconds(entry.get("timestamp"))
    match entry.get("type"):
        case "session_meta":
            _meta(entry["payload"], recorder)
        case "turn_context":
            recorder.model = entry["payload"].get("model")
        case "response_item":
            _item(entry["payload"], recorder, timestamp)
        case "event_msg" if entry["payload"].get("type") == "token_count":
            _tokens(entry["payload"], recorder)
        case None if "id" in entry:
            _meta(entry, recorder)
        case str() as kind if kind not in {"event_msg", "compacted"}:
            _item(entry, recorder, timestamp)


def _meta(payload: Entry, recorder: Recorder) -> None:
    recorder.recorded_id = payload["id"]
    base = payload.get("base_instructions") or {}
    recorder.system(base.get("text") or payload.get("instructions") or "")


def _item(item: Entry, recorder: Recorder, timestamp: int | None) -> None:
    match item["type"]:
        case "message":
            _message(item, recorder, timestamp)
        case "function_call":
            _answering(recorder, timestamp)
            recorder.call(item["call_id"], tool=item["name"], args=parsed_args(item["arguments"]))
        case "custom_tool_call":
            _answering(recorder, timestamp)
            recorder.call(item["call_id"], tool=item["name"], args={"input": item["input"]})
        case "local_shell_call":
            _answering(recorder, timestamp)
            action = {"command": item["action"]["command"]}
            recorder.call(item["call_id"], tool="local_shell", args=action)
        case "function_call_output" | "custom_tool_call_output":
            text = _output_text(item["output"])
            recorder.result(item["call_id"], output=text, failed=_failed(item["output"], text))


def _message(item: Entry, recorder: Recorder, timestamp: int | None) -> None:
    text = content_text(item["content"])
    match item["role"]:
        case "assistant":
            _answering(recorder, timestamp)
            recorder.text(text)
        case "user":
            recorder.user(text)
        case _:
            recorder.system(text)


def _answering(recorder: Recorder, timestamp: int | None) -> None:
    """Go on with the answer, unless something has come after it."""
    if not recorder.is_open:
        recorder.answer(timestamp=timestamp)


def _tokens(payload: Entry, recorder: Recorder) -> None:
    last = (payload.get("info") or {}).get("last_token_usage")
    usage = openai_usage(last)
    if usage is not None and usage.prompt_tokens:
        recorder.usage(usage)


def _output_text(output: object) -> str:
    if isinstance(output, dict):
        return content_text(output.get("content"))
    return content_text(output)


def _failed(output: object, text: str) -> bool:
    if isinstance(output, dict):
        return output.get("success") is False
    if not text.startswith("{"):
        return False
    told = parsed_args(text)
    metadata = told.get("metadata") if isinstance(told, dict) else None
    return isinstance(metadata, dict) and metadata.get("exit_code", 0) != 0
