"""Reads rollouts of Codex, which mix the items of its API with events for its display. Pure.

An answer is a sequence of items that a result, a user message or the report of its tokens ends. Of
the events only token counts and failures are read; the others repeat the items. The summary that a
compaction writes is left out, and so are the items that it repeats. In old rollouts the items have
no ``payload`` wrapper.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import openai_usage
from ctxmgr.recordings.recorder import Recorder, content_text, milliseconds, parse_args

NAME: Final = "codex"

Entry = Mapping[str, Any]

_WRAPPED: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})
_CONTEXT: Final = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")
"""How messages begin that Codex writes in the role of the user."""

_EXIT_CODE: Final = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_REFUSED: Final = ("exec_command failed", "unsupported custom tool call", "unsupported call")
_HEADER_CHARS_MAX: Final = 400
"""Of an output, where Codex writes the exit code: what follows was written by the command."""


def recognises(entries: Sequence[Entry]) -> bool:
    wrapped = any(entry.get("type") in _WRAPPED and "payload" in entry for entry in entries)
    bare = bool(entries) and "instructions" in entries[0] and "type" not in entries[0]
    return wrapped or bare


def selected(entries: Sequence[Entry]) -> Iterable[tuple[int, Entry]]:
    return enumerate(entries)


def read(entry: Entry, recorder: Recorder) -> None:
    timestamp = milliseconds(entry.get("timestamp"))
    match entry.get("type"):
        case "session_meta":
            _meta(entry["payload"], recorder)
        case "turn_context":
            recorder.model = entry["payload"].get("model")
        case "response_item" if (entry.get("metadata") or {}).get("compaction_output"):
            recorder.end_answer()  # a summary, since version 0.160 or so
        case "response_item":
            _item(entry["payload"], recorder, timestamp)
        case "event_msg":
            _event(entry["payload"], recorder)
        case "token_usage_record":
            _usage(entry["payload"].get("usage"), recorder)
        case "compacted":
            payload = entry.get("payload") or entry
            recorder.discard_summary(payload.get("message") or "")
        case None if "id" in entry:
            _meta(entry, recorder)
        case str() as kind if "payload" not in entry:
            _item({**entry, "type": kind}, recorder, timestamp)


def _meta(payload: Entry, recorder: Recorder) -> None:
    if recorder.recorded_id is not None:
        return  # a fork repeats the session that it was forked from
    recorder.recorded_id = payload["id"]
    source = payload.get("source")
    if isinstance(source, dict):
        recorder.parent = _parent(source.get("subagent"))
    base = payload.get("base_instructions") or {}
    recorder.system(base.get("text") or payload.get("instructions") or "")


def _parent(subagent: object) -> str | None:
    spawned = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    return spawned.get("parent_thread_id") if isinstance(spawned, dict) else None


def _event(event: Entry, recorder: Recorder) -> None:
    match event.get("type"):
        case "token_count":
            _usage((event.get("info") or {}).get("last_token_usage"), recorder)
        case "task_started":
            recorder.end_answer()
        case "mcp_tool_call_end":
            result = event.get("result") or {}
            answered = result.get("Ok") or {}
            if "Err" in result or answered.get("isError") or answered.get("is_error"):
                recorder.fail(event["call_id"])
        case "item_completed":
            item = event.get("item") or {}
            if item.get("status") == "failed" and isinstance(item.get("id"), str):
                recorder.fail(item["id"])


def _usage(value: object, recorder: Recorder) -> None:
    """Read a report of tokens, which ends an answer; later ones repeat it."""
    usage = openai_usage(value) if isinstance(value, dict) else None
    if usage is not None and usage.prompt_tokens and not recorder.has_usage:
        recorder.usage(usage)
    recorder.end_answer()


def _item(item: Entry, recorder: Recorder, timestamp: int | None) -> None:
    match item["type"]:
        case "message":
            _message(item, recorder, timestamp)
        case "function_call":
            _continue_answer(recorder, timestamp)
            tool, namespace = item["name"], item.get("namespace")
            if namespace:
                tool = f"{namespace.removesuffix('__')}__{tool}"
            recorder.call(item["call_id"], tool=tool, args=parse_args(item["arguments"]))
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
            failed = _failed(output, text)
            recorder.result(item["call_id"], output=text, failed=failed, timestamp=timestamp)


def _message(item: Entry, recorder: Recorder, timestamp: int | None) -> None:
    text = content_text(item["content"])
    match item["role"]:
        case "assistant":
            _continue_answer(recorder, timestamp)
            recorder.text(text)
        case "user" if text.startswith(_CONTEXT):
            recorder.environment(text)
        case "user":
            recorder.user(text)
        case role if recorder.has_answers:  # such as the output of a hook
            recorder.user(f"<{role}>\n{text}\n</{role}>")
        case _:
            recorder.system(text)


def _continue_answer(recorder: Recorder, timestamp: int | None) -> None:
    """Start a new answer if the last one has ended."""
    if not recorder.is_open:
        recorder.answer(timestamp=timestamp)


def _failed(output: object, text: str) -> bool:
    if isinstance(output, dict):
        return output.get("success") is False
    if text.startswith("{"):
        report = parse_args(text)
        metadata = report.get("metadata") if isinstance(report, dict) else None
        return isinstance(metadata, dict) and metadata.get("exit_code", 0) != 0
    header = text[:_HEADER_CHARS_MAX].partition("\nOutput:")[0]
    code = _EXIT_CODE.search(header) if len(header) < len(text) or "\n" not in text else None
    return text.startswith(_REFUSED) or (code is not None and int(code[1]) != 0)
