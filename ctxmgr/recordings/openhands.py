"""Reads trajectories of OpenHands in both of its event formats. Pure.

    runtime   ``action`` and ``observation`` events; the model's reply is in
              ``tool_call_metadata``, and the actions of one reply are one turn
    SDK       events with a ``kind``; the actions of one ``llm_response_id`` are one turn

Events that the model does not see are skipped.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import openai_usage
from ctxmgr.recordings.recorder import Recorder, content_text, milliseconds, parse_args

NAME: Final = "openhands"

Entry = Mapping[str, Any]

_SKIPPED_ACTIONS: Final = frozenset(
    {"change_agent_state", "recall", "null", "pause", "start", "condensation", "task_tracking"}
)


def recognises(entries: Sequence[Entry]) -> bool:
    return any(
        ("source" in entry and bool({"action", "observation"} & entry.keys()))
        or str(entry.get("kind", "")).endswith(("Event", "Observation"))
        for entry in entries
    )


def selected(entries: Sequence[Entry]) -> Iterable[tuple[int, Entry]]:
    return enumerate(entries)


def read(entry: Entry, recorder: Recorder) -> None:
    if "kind" in entry:
        _read_sdk_event(entry, recorder)
    elif "action" in entry and entry["action"] not in _SKIPPED_ACTIONS:
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
        tool_args = {name: value for name, value in args.items() if name != "thought"}
        recorder.call(_event_id(entry["id"]), tool=entry["action"], args=tool_args)
        return
    response = metadata.get("model_response") or {}
    key = response.get("id")
    is_new = not recorder.continues(key)
    recorder.answer(key, model=response.get("model"), timestamp=timestamp)
    choices = response.get("choices") or [{}]
    message = choices[0].get("message") or {}
    if is_new:
        recorder.text(content_text(message.get("content")) or args.get("thought") or "")
    functions = {call["id"]: call["function"] for call in message.get("tool_calls") or ()}
    function = functions.get(metadata["tool_call_id"]) or {"arguments": args}
    recorder.call(
        metadata["tool_call_id"],
        tool=metadata["function_name"],
        args=parse_args(function["arguments"]),
    )
    usage = openai_usage(response.get("usage"))
    if usage is not None:
        recorder.usage(usage)


def _observation(entry: Entry, recorder: Recorder) -> None:
    metadata = entry.get("tool_call_metadata")
    call_id = metadata["tool_call_id"] if metadata else _event_id(entry.get("cause"))
    if not recorder.has_call(call_id):
        return  # the result of an action of the user or of OpenHands itself
    extras = entry.get("extras") or {}
    extra_metadata = extras.get("metadata") or {}
    exit_code = extra_metadata.get("exit_code", extras.get("exit_code", 0)) or 0
    recorder.result(
        call_id,
        output=content_text(entry.get("content")),
        failed=exit_code > 0 or entry["observation"] == "error",
        timestamp=milliseconds(entry.get("timestamp")),
    )


def _read_sdk_event(entry: Entry, recorder: Recorder) -> None:
    match entry["kind"]:
        case "SystemPromptEvent":
            recorder.system(content_text(entry["system_prompt"]))
        case "MessageEvent":
            text = content_text(entry["llm_message"].get("content"))
            if entry.get("source") == "agent":
                recorder.answer(
                    entry.get("llm_response_id"), timestamp=milliseconds(entry.get("timestamp"))
                )
                recorder.text(text)
            else:
                recorder.user(text)
        case "ActionEvent":
            recorder.answer(
                entry.get("llm_response_id"), timestamp=milliseconds(entry.get("timestamp"))
            )
            recorder.text(content_text(entry.get("thought")))
            call = entry.get("tool_call") or {}
            function = call.get("function") or call
            args = function.get("arguments", entry.get("action") or {})
            recorder.call(entry["tool_call_id"], tool=entry["tool_name"], args=parse_args(args))
        case "ObservationEvent":
            observation = entry["observation"]
            content = observation.get("content", observation.get("output"))
            failed = bool(observation.get("is_error")) or (observation.get("exit_code") or 0) > 0
            recorder.result(
                entry["tool_call_id"],
                output=content_text(content),
                failed=failed,
                timestamp=milliseconds(entry.get("timestamp")),
            )
        case "AgentErrorEvent" | "UserRejectObservation":
            reason = entry.get("error") or entry.get("rejection_reason") or ""
            recorder.result(
                entry["tool_call_id"],
                output=reason,
                failed=True,
                timestamp=milliseconds(entry.get("timestamp")),
            )


def _event_id(number: object) -> str:
    return f"event-{number}"
