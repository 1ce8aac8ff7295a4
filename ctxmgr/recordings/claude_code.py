"""Reads transcripts of Claude Code, a tree with one entry per content block of an answer. Pure.

The branch that ends with the last message is read, across compactions: what was rewound is left
out. Blocks with the same message id are one answer and one turn; parallel calls have siblings in
the tree, which belong to the branch too. Left out are summaries of compactions with what Claude
Code shows again after them, output of its own commands, duplicates and error notices.

Attachments (``@file``, output of hooks, reminders) are kept as the model saw them. Before the first
answer, what Claude Code says about the environment is a part of the system prompt.

A file ``subagents/agent-*.jsonl`` is a session of its own, linked to the one that started it.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from ctxmgr.core.model import anthropic_usage
from ctxmgr.recordings.recorder import Recorder, content_text, milliseconds

NAME: Final = "claude-code"

SYNTHETIC: Final = "<synthetic>"
"""The model name in answers that Claude Code wrote itself."""

Entry = Mapping[str, Any]

_MESSAGES: Final = frozenset({"user", "assistant"})
_REQUEST_SHAPE: Final = "api-request-shape"
_SNAPSHOT: Final = "prompt_snapshot"

_ENVIRONMENT: Final = frozenset({"session_context", "remote_session_change"})
"""Attachments about the environment, although Claude Code sends them in the role of the user."""

_LOCAL_COMMANDS: Final = ("<command-name>", "<local-command-")
"""How messages begin that record a command of Claude Code itself, such as ``/compact``."""


def recognises(entries: Sequence[Entry]) -> bool:
    return any("sessionId" in entry and entry.get("type") in _MESSAGES for entry in entries)


def selected(entries: Sequence[Entry]) -> list[tuple[int, Entry]]:
    """Return the entries of the last branch, with their positions."""
    is_subagent = not any(
        entry.get("type") in _MESSAGES and not entry.get("isSidechain") for entry in entries
    )
    own: dict[str, int] = {}
    for position, entry in enumerate(entries):
        if "uuid" in entry and bool(entry.get("isSidechain")) == is_subagent:
            own.setdefault(str(entry["uuid"]), position)
    messages = [n for n in own.values() if entries[n].get("type") in _MESSAGES]
    if any("parentUuid" in entries[n] for n in messages):
        branch = _branch(entries, own, messages)
        branch |= _siblings(entries, branch, messages)
    else:  # the links were not recorded
        branch = {n for n, entry in enumerate(entries) if _is_unlinked_message(entry, is_subagent)}
    kept = _without_compactions(entries, sorted(branch))
    prompt = _request_shape(entries, kept)
    if prompt is not None:  # it is what was sent, and a snapshot almost the same
        kept = sorted([prompt, *(n for n in kept if not _is_snapshot(entries[n]))])
    return [(n, entries[n]) for n in kept]


def read(entry: Entry, recorder: Recorder) -> None:
    if entry["type"] == _REQUEST_SHAPE:
        recorder.system("\n\n".join(map(content_text, entry["shape"]["system"])))
        return
    recorder.recorded_id = entry.get("sessionId")
    if entry.get("isSidechain") and "agentId" in entry:
        recorder.parent = entry.get("sessionId")
        recorder.recorded_id = f"{recorder.parent}.agent-{entry['agentId']}"
    if entry["type"] == "attachment":
        _attachment(entry, entry["attachment"], recorder)
        return
    message = entry["message"]
    if entry["type"] == "user":
        _user(entry, message["content"], recorder)
    elif message.get("model") != SYNTHETIC and not entry.get("isApiErrorMessage"):
        _answer(entry, message, recorder)


def _is_unlinked_message(entry: Entry, is_subagent: bool) -> bool:  # noqa: FBT001
    sidechain = bool(entry.get("isSidechain"))
    return entry.get("type") in _MESSAGES and sidechain == is_subagent


def _branch(entries: Sequence[Entry], own: Mapping[str, int], messages: Sequence[int]) -> set[int]:
    """Return the positions from the last message back to the first one of its branch."""
    before = {n: earlier for earlier, n in pairwise(messages)}
    branch: set[int] = set()
    position: int | None = messages[-1]
    while position is not None and position not in branch:  # a damaged file may have a cycle
        branch.add(position)
        entry = entries[position]
        parent = entry.get("parentUuid") or entry.get("logicalParentUuid")
        if parent is None:
            break
        # A parent that is missing in a damaged file is taken to be the message before.
        position = own.get(str(parent), before.get(position))
    return branch


def _siblings(entries: Sequence[Entry], branch: set[int], messages: Sequence[int]) -> set[int]:
    """Return the other blocks of the branch's answers, and the results of their calls."""
    answers = {
        entries[n]["message"].get("id") for n in branch if entries[n].get("type") == "assistant"
    } - {None}
    found = {
        n
        for n in messages
        if entries[n]["type"] == "assistant" and entries[n]["message"].get("id") in answers
    }
    calls = {
        block["id"]
        for n in found
        for block in _blocks(entries[n])
        if block.get("type") == "tool_use"
    }
    answered = {call for n in branch if n not in found for call in _results(entries[n])}
    for n in messages:
        results = set(_results(entries[n]))
        if n not in branch and results & calls and not results & answered:
            found.add(n)
            answered |= results
    return found


def _blocks(entry: Entry) -> list[Entry]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if type(content) is list else []


def _results(entry: Entry) -> list[str]:
    return [b["tool_use_id"] for b in _blocks(entry) if b.get("type") == "tool_result"]


def _without_compactions(entries: Sequence[Entry], branch: Iterable[int]) -> list[int]:
    """Leave out summaries, and what is shown again between a summary and the next message."""
    kept: list[int] = []
    compacted = False
    for n in branch:
        entry = entries[n]
        if entry.get("isCompactSummary") or entry.get("subtype") == "compact_boundary":
            compacted = True
        elif entry.get("type") in _MESSAGES and not _is_local_command(entry):
            compacted = False
            kept.append(n)
        elif entry.get("type") == "attachment" and not compacted:
            kept.append(n)
    return kept


def _is_local_command(entry: Entry) -> bool:
    if entry.get("type") != "user":
        return False
    content = entry["message"].get("content")
    return isinstance(content, str) and content.lstrip().startswith(_LOCAL_COMMANDS)


def _request_shape(entries: Sequence[Entry], branch: Sequence[int]) -> int | None:
    """Return the position of the first request's shape, which has the system prompt."""
    agents = {entries[n].get("agentId") for n in branch}
    shapes = (n for n, entry in enumerate(entries) if entry.get("type") == _REQUEST_SHAPE)
    return next((n for n in shapes if entries[n].get("agentId") in agents), None)


def _is_snapshot(entry: Entry) -> bool:
    attachment = entry.get("attachment")
    return isinstance(attachment, dict) and attachment.get("type") == _SNAPSHOT


def _attachment(entry: Entry, attachment: Entry, recorder: Recorder) -> None:
    kind = attachment.get("type")
    if kind == _SNAPSHOT:
        if not recorder.has_answers and not recorder.has_system_prompt:
            recorder.system("\n\n".join(map(content_text, attachment.get("systemPrompt") or ())))
        return
    rendered = entry.get("rendered")
    if rendered is not None:
        text = "\n".join(content_text(part.get("content")) for part in rendered)
    else:  # before version 2.1.300 or so
        text = _file_text(attachment) if kind == "file" else ""
    by_harness = entry.get("renderedRole") == "system" or kind in _ENVIRONMENT
    if by_harness and not recorder.has_answers:
        recorder.environment(text)
    else:
        recorder.user(text)


def _file_text(attachment: Entry) -> str:
    content = attachment.get("content") or {}
    file = content.get("file") or {}
    return f'<file path="{attachment.get("filename", "")}">\n{file.get("content", "")}\n</file>'


def _user(entry: Entry, content: object, recorder: Recorder) -> None:
    if not isinstance(content, list):
        recorder.user(content_text(content))
        return
    for block in content:
        if block["type"] != "tool_result":
            continue
        output = content_text(block.get("content"))
        if recorder.has_call(block["tool_use_id"]):
            recorder.result(
                block["tool_use_id"],
                output=output,
                failed=bool(block.get("is_error")),
                timestamp=milliseconds(entry.get("timestamp")),
            )
        else:  # the call was lost when Claude Code was interrupted
            recorder.user(f"[result of the unrecorded call {block['tool_use_id']}]\n{output}")
    recorder.user(content_text(content))


def _answer(entry: Entry, message: Entry, recorder: Recorder) -> None:
    recorder.answer(
        message.get("id"),
        model=message.get("model"),
        timestamp=milliseconds(entry.get("timestamp")),
    )
    for block in message["content"]:
        match block["type"]:
            case "text":
                recorder.text(block["text"])
            case "tool_use":
                recorder.call(block["id"], tool=block["name"], args=block["input"])
    usage = anthropic_usage(message.get("usage"))
    if usage is not None:
        recorder.usage(usage)
