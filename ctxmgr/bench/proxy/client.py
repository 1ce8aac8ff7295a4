"""Requests of a client that keeps its history itself, as Claude Code writes them.

Every call sends the whole history so far in the form of Anthropic's Messages API: two blocks of the
system prompt and the last block of the last message carry a cache mark.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ctxmgr.bench.economy.sessions import RecordedSession, ReplayedCall, ReplayedTurn
from ctxmgr.core.objects.answers import NOT_RUN

MODEL: Final = "claude-opus-4-6"
"""A model that does not bind its thinking, so that all of shaping can be measured."""

_MARK: Final = {"type": "ephemeral"}
_IDENTITY: Final = "You are a coding agent."
NO_TEXT: Final = "(no message)"


def requests(session: RecordedSession, *, model: str = MODEL) -> Iterator[bytes]:
    """Yield the body of every call of a session, in order."""
    system = [_text(_IDENTITY) | {"cache_control": _MARK}]
    if session.system_prompt.strip():
        system.append(_text(session.system_prompt) | {"cache_control": _MARK})
    tools = _tools(session)
    messages: list[str] = []
    waiting: list[dict[str, Any]] = []
    for number, turn in enumerate(session.turns, start=1):
        if turn.user.strip():
            waiting.append(_text(turn.user))
        blocks = waiting or [_text(NO_TEXT)]
        last = [*blocks[:-1], blocks[-1] | {"cache_control": _MARK}]
        head = json.dumps({"model": model, "max_tokens": 8192, "stream": True})[:-1]
        user = json.dumps({"role": "user", "content": last})
        yield (
            f'{head}, "messages": [{", ".join([*messages, user])}],'
            f' "system": {json.dumps(system)}, "tools": {json.dumps(tools)},'
            f' "metadata": {json.dumps(_metadata(session))}}}'
        ).encode()
        answer, waiting = _answered(turn, number)
        messages += [json.dumps({"role": "user", "content": blocks}), json.dumps(answer)]


def answers(session: RecordedSession) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the content of every recorded answer: some proxies expect it in the next request."""
    for number, turn in enumerate(session.turns, start=1):
        yield _answered(turn, number)[0]["content"]


def _answered(turn: ReplayedTurn, number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the answer of a turn, and the results of its calls."""
    blocks, results = list[dict[str, Any]](), list[dict[str, Any]]()
    for index, part in enumerate(turn.parts):
        if isinstance(part, str):
            if part.strip():
                blocks.append(_text(part))
            continue
        call_id = f"toolu_{number}_{index}"
        blocks.append(
            {"type": "tool_use", "id": call_id, "name": part.tool, "input": dict(part.args)}
        )
        result: dict[str, Any] = {"tool_use_id": call_id, "type": "tool_result"}
        result["content"] = NOT_RUN if part.output is None else part.output
        results.append(result | ({"is_error": True} if part.output is None else {}))
    return {"role": "assistant", "content": blocks or [_text(NO_TEXT)]}, results


def _tools(session: RecordedSession) -> list[dict[str, Any]]:
    names = dict.fromkeys(
        part.tool for turn in session.turns for part in turn.parts if isinstance(part, ReplayedCall)
    )
    schema = {"type": "object", "properties": {}}
    return [
        {"name": name, "description": f"Run {name}.", "input_schema": schema}
        for name in names or {"bash": None}
    ]


def _metadata(session: RecordedSession) -> Mapping[str, Any]:
    return {"user_id": json.dumps({"session_id": session.session_id})}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
