"""Reads sessions of opencode as ``opencode export`` writes them. Pure.

    info        the session; ``parentID`` links a subagent's session, ``revert`` names a message
                from which on all was undone
    messages    each with ``info`` and ``parts``; a tool part has its call and the result

Compactions and their summaries are left out, as are parts that were not sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.model import Usage
from ctxmgr.recordings.recorder import IMAGE, Recorder, milliseconds

NAME: Final = "opencode"

Entry = Mapping[str, Any]


def recognises(entries: Sequence[Entry]) -> bool:
    return bool(entries) and all(
        isinstance(entry.get("info"), dict) and isinstance(entry.get("parts"), list)
        for entry in entries
    )


def selected(entries: Sequence[Entry]) -> Iterable[tuple[int, Entry]]:
    kept = []
    for n, entry in enumerate(entries):
        kinds = {part.get("type") for part in entry["parts"]}
        is_summary = entry["info"].get("summary") is True or "compaction" in kinds
        if not is_summary:
            kept.append((n, entry))
    return kept


def read_info(info: Entry, recorder: Recorder) -> None:
    """Read what an export says about the session."""
    recorder.recorded_id = info["id"]
    recorder.parent = info.get("parentID")


def before_revert(entries: Sequence[Entry], info: Entry) -> Sequence[Entry]:
    """Return the messages that were not undone."""
    revert = info.get("revert") or {}
    undone = (n for n, e in enumerate(entries) if e["info"].get("id") == revert.get("messageID"))
    return entries[: next(undone, len(entries))] if revert else entries


def read(entry: Entry, recorder: Recorder) -> None:
    info = entry["info"]
    if info["role"] == "user":
        recorder.user("\n".join(filter(None, map(_user_text, entry["parts"]))))
        return
    times = info.get("time") or {}
    recorder.answer(
        info.get("id"),
        model=info.get("modelID"),
        timestamp=milliseconds(times.get("completed") or times.get("created")),
    )
    for part in entry["parts"]:
        match part.get("type"):
            case "text" if not part.get("ignored"):
                recorder.text(part["text"])
            case "tool":
                recorder.call(
                    part["callID"], tool=part["tool"], args=part["state"].get("input") or {}
                )
    for part in entry["parts"]:
        if part.get("type") == "tool":
            _result(part["callID"], part["state"], recorder)
    tokens = info.get("tokens")
    if tokens and tokens.get("output"):
        cache = tokens.get("cache") or {}
        recorder.usage(
            Usage(
                input_tokens=tokens.get("input") or 0,
                cache_read_tokens=cache.get("read") or 0,
                cache_written_tokens=cache.get("write") or 0,
                output_tokens=tokens["output"] + (tokens.get("reasoning") or 0),
            )
        )


def _user_text(part: Entry) -> str:
    match part.get("type"):
        case "text" if not part.get("ignored"):
            return str(part.get("text") or "")
        case "file" if str(part.get("mime") or "").startswith("image/"):
            return IMAGE
        case _:
            return ""


def _result(call_id: str, state: Entry, recorder: Recorder) -> None:
    if state.get("status") not in {"completed", "error"}:
        return  # it was running when the session was exported
    metadata = state.get("metadata") or {}
    exit_code = metadata.get("exit")
    failed = state["status"] == "error" or (isinstance(exit_code, int) and exit_code != 0)
    recorder.result(
        call_id,
        output=state.get("output") or state.get("error") or "",
        failed=failed,
        timestamp=milliseconds((state.get("time") or {}).get("end")),
    )
