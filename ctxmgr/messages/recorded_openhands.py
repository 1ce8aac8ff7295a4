"""Trajectories of OpenHands, of both its event formats. Pure.

    runtime   ``action`` and ``observation`` events; what the model really said is in
              ``tool_call_metadata``, and actions of one response are one turn
    SDK       events that name their ``kind``; actions of one ``llm_response_id`` are one turn

Events between the program and its own screen are left out.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.usage import openai_usage
from ctxmgr.messages.recorded import Recorder
from ctxmgr.messages.recorded_blocks import content_text, milliseconds, parsed_args

NAME: Final = "openhands"

Entry = Mapping[str, Any]

_SILENT: Final = frozenset(
    {"change_agent_state", "recall", "null", "pause", "start", "condensation", "task_tracking"}
)


def recognises(entries: Sequence[Entry]) -> bool:
    return any(
        ("source" in each and bool({"action", "observation"} & each.keys()))
        or str(each.get("kind", "")).endswith(("Event", "Observation"))
        for each in entries
    )


def wanted(entries: Sequence[Entry]) -> set[int]:
    return set(range(len(entries)))


def read(entry: Entry, recorder: Recorder) -> None:
    if "kind" in entry:
        _READ_KIND.get(entry["kind"], _nothing)(entry, recorder)
    elif "action" in entry and entry["action"] not in _SILENT:
        _action(entry, recorder)
    elif "observation" in entry:
        _observation(entry, recorder)


def _action(entry: Entry, recorder: Recorder) -> None:
    args = entry.get("args") or {}
    match entry["action"], entry.get("source"):
        case "system", _:
            recorder.system(args.get("content") or entry.get("message") or "")
        case "message", "user":
            recorder.user(args.get("content") or entry.get("message") or "")
        case _, "user":
            recorder.user(f"$ {args.get('command') or json.dumps(args)}")
        case "message", _:
            recorder.answer(timestamp=milliseconds(entry.get("timestamp")))
            recorder.text(args.get("content") or entry.get("message") or "")
        case _:
            _call(entry, args, recorder)


def _call(entry: Entry, args: Entry, recorder: Recorder) -> None:
    metadata = entry.get("tool_call_metadata")
    timestamp = milliseconds(entry.get("timestamp"))
    if not metadata:
        recorder.answer(timestamp=timestamp)
        recorder.text(args.get("thought") or "")
        given = {name: value for name, value in args.items() if name != "thought"}
        recorder.call(_event_id(entry["id"]), tool=entry["action"], args=given)
        return
    response = metadata.get("model_response") or {}
    key = response.get("id")
    is_new = not recorder.goes_on(key)
    recorder.answer(key, model=response.get("model"), timestamp=timestamp)
    choices = response.get("choices") or [{}]
    message = choices[0].get("message") or {}
    if is_new:
        recorder.text(content_text(message.get("content")) or args.get("thought") or "")
    asked = {each["id"]: each["function"] for each in message.get("tool_calls") or ()}
    function = asked.get(metadata["tool_call_id"]) or {"arguments": args}
    recorder.call(
        metadata["tool_call_id"],
        tool=metadata["function_name"],
        args=parsed_args(function["arguments"]),
    )
    usage = openai_usage(response.get("usage"))
    if usage is not None:
        recorder.usage(usage)


def _observation(entry: Entry, recorder: Recorder) -> None:
    metadata = entry.get("tool_call_metadata")
    call_id = metadata["tool_call_id"] if metadata else _event_id(entry.get("cause"))
    if not recorder.knows(call_id):
        return  # of something that the user or the program did
    extras = entry.get("extras") or {}
    told = extras.get("metadata") or {}
    exit_code = told.get("exit_code", extras.get("exit_code", 0)) or 0
    recorder.result(
        call_id,
        output=content_text(entry.get("content")),
        failed=exit_code > 0 or entry["observation"] == "error",
    )


def _message_event(entry: Entry, recorder: Recorder) -> None:
    text = content_text(entry["llm_message"].get("content"))
    if entry.get("source") == "agent":
        recorder.answer(
            entry.get("llm_response_id"), timestamp=milliseconds(entry.get("timestamp"))
        )
        recorder.text(text)
    else:
        recorder.user(text)


def _action_event(entry: Entry, recorder: Recorder) -> None:
    recorder.answer(entry.get("llm_response_id"), timestamp=milliseconds(entry.get("timestamp")))
    recorder.text(content_text(entry.get("thought")))
    call = entry.get("tool_call") or {}
    function = call.get("function") or call
    args = function.get("arguments", entry.get("action") or {})
    recorder.call(entry["tool_call_id"], tool=entry["tool_name"], args=parsed_args(args))


def _observation_event(entry: Entry, recorder: Recorder) -> None:
    seen = entry["observation"]
    content = seen.get("content", seen.get("output"))
    failed = bool(seen.get("is_error")) or (seen.get("exit_code") or 0) > 0
    recorder.result(entry["tool_call_id"], output=content_text(content), failed=failed)


def _error_event(entry: Entry, recorder: Recorder) -> None:
    text = entry.get("error") or entry.get("rejection_reason") or ""
    recorder.result(entry["tool_call_id"], output=text, failed=True)


def _system_event(entry: Entry, recorder: Recorder) -> None:
    recorder.system(content_text(entry["system_prompt"]))


def _nothing(_entry: Entry, _recorder: Recorder) -> None:
    """An event that the model does not see."""


_READ_KIND: Final = {
    "SystemPromptEvent": _system_event,
    "MessageEvent": _message_event,
    "ActionEvent": _action_event,
    "ObservationEvent": _observation_event,
    "AgentErrorEvent": _error_event,
    "UserRejectObservation": _error_event,
}


def _event_id(number: object) -> str:
    return f"event-{number}"
