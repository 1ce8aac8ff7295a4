"""Reads rollouts of Codex, which mix the items of its API with events for its display. Pure.

An answer is a sequence of items that a tool result or a user message ends. Of the events only token
counts are read; the others repeat the items. In old rollouts the items have no ``payload`` wrapper.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import openai_usage
from ctxmgr.recordings.recorder import Recorder, content_text, milliseconds, parse_args

NAME: Final = "codex"

Entry = Mapping[str, Any]

_WRAPPED: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})


def recognises(entries: Sequence[Entry]) -> bool:
    wrapped = any(entry.get("type") in _WRAPPED and "payload" in entry for entry in entries)
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
            usage = openai_usage((entry["payload"].get("info") or {}).get("last_token_usage"))
            if usage is not None and usage.prompt_tokens:
                recorder.usage(usage)
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
            text = content_text(item["content"])
            match item["role"]:
                case "assistant":
                    _continue_answer(recorder, timestamp)
                    recorder.text(text)
                case "user":
                    recorder.user(text)
                case _:
                    recorder.system(text)
        case "function_call":
            _continue_answer(recorder, timestamp)
            recorder.call(item["call_id"], tool=item["name"], args=parse_args(item["arguments"]))
        case "custom_tool_call":
            _continue_answer(recorder, timestamp)
            recorder.call(item["call_id"], tool=item["name"], args={"input": item["input"]})
        case "local_shell_call":
            _continue_answer(recorder, timestamp)
            action = {"command": item["action"]["command"]}
            recorder.call(item["call_id"], tool="local_shell", args=action)
        case "function_call_output" | "custom_tool_call_output":
            output = item["output"]
            text = content_text(output.get("content") if isinstance(output, dict) else output)
            recorder.result(item["call_id"], output=text, failed=_failed(output, text))


def _continue_answer(recorder: Recorder, timestamp: int | None) -> None:
    """Start a new answer if a result or a user message ended the last one."""
    if not recorder.is_open:
        recorder.answer(timestamp=timestamp)


def _failed(output: object, text: str) -> bool:
    if isinstance(output, dict):
        return output.get("success") is False
    if not text.startswith("{"):
        return False
    report = parse_args(text)
    metadata = report.get("metadata") if isinstance(report, dict) else None
    return isinstance(metadata, dict) and metadata.get("exit_code", 0) != 0
