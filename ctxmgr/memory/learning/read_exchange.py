"""The turns of an exchange and their tool calls, as extractors read them. Reads the store."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ctxmgr.core.store.contract import Store
from ctxmgr.memory.extraction.exchange import AnswerPassage, Exchange, ToolRun
from ctxmgr.memory.extraction.tool_runs import RECALLING

Mask: TypeAlias = Callable[[str], str]
"""Returns a text without its secrets."""

StoredTurn: TypeAlias = Mapping[str, Any]
"""A turn as the chat stores it."""

CALLS_MAX: Final = 2_000
"""Tool calls of one exchange that are read, the last ones."""
TEXT_CHARS_MAX: Final = 60_000
"""Of an output or an argument: of longer ones, the beginning and the end are read."""

_CALLS: Final = frozenset({"toolcall", "contextcall"})


def calls_tools(turn: StoredTurn) -> bool:
    """Whether the model waits for tools, and will continue."""
    parts = turn.get("assistant") or ()
    return any(isinstance(part, Mapping) and part.get("type") in _CALLS for part in parts)


def last_path(turn: StoredTurn) -> str | None:
    """Return the file that a turn read or changed last."""
    found = None
    for part in turn.get("assistant") or ():
        args = part.get("args") if isinstance(part, Mapping) else None
        if isinstance(args, Mapping):
            path = args.get("path") or args.get("file_path")
            found = path if isinstance(path, str) else found
    return found


async def read_exchange(
    store: Store,
    session_id: str,
    turns: Mapping[int, StoredTurn],
    *,
    mask: Mask,
    follows_answer: bool,
) -> Exchange:
    """Return an exchange; secrets are masked before anything is read or shortened."""
    first, last = min(turns), max(turns)
    calls = {
        str(call): number
        for number, turn in sorted(turns.items())
        for call in turn.get("toolcall_ids") or ()
    }
    kept = list(calls)[-CALLS_MAX:]
    stored = await store.get_many(kept)
    runs = [
        _run(stored[call].document, call, calls[call], mask=mask) for call in kept if call in stored
    ]
    answers = [
        AnswerPassage(turn=number, text=_short(text, mask))
        for number, turn in sorted(turns.items())
        if (text := _said(turn))
    ]
    return Exchange(
        session_id=session_id,
        first_turn=first,
        last_turn=last,
        user=_short(str(turns[first].get("user") or ""), mask),
        answers=tuple(answers),
        runs=tuple(run for run in runs if not _recalls(run.tool)),
        follows_answer=follows_answer,
    )


def _run(document: Mapping[str, Any], object_id: str, turn: int, *, mask: Mask) -> ToolRun:
    args = document.get("args")
    return ToolRun(
        object_id=object_id,
        object_hash=document.get("object_hash"),
        turn=turn,
        tool=str(document.get("tool") or ""),
        args=_masked(args if isinstance(args, Mapping) else {}, mask),
        ok=document.get("status") == "ok",
        output=_short(str(document.get("content") or ""), mask),
    )


def _masked(value: Any, mask: Mask) -> Any:
    match value:
        case str():
            return _short(value, mask)
        case Mapping():
            return {key: _masked(each, mask) for key, each in value.items()}
        case list():
            return [_masked(each, mask) for each in value]
        case _:
            return value


def _said(turn: StoredTurn) -> str:
    parts = turn.get("assistant") or ()
    texts = [
        str(part.get("text") or "")
        for part in parts
        if isinstance(part, Mapping) and part.get("type") == "text"
    ]
    return "\n\n".join(text for text in texts if text)


def _short(text: str, mask: Mask) -> str:
    whole = mask(text)
    if len(whole) <= TEXT_CHARS_MAX:
        return whole
    half = TEXT_CHARS_MAX // 2
    return f"{whole[:half]}\n{whole[-half:]}"


def _recalls(tool: str) -> bool:
    """Whether a tool returns what was known before, also one of an MCP server."""
    return tool.lower().replace(".", "_").rsplit("__", maxsplit=1)[-1] in RECALLING
