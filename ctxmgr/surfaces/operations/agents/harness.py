"""Operations for harnesses in other languages: they take part in a session over HTTP.

    start      a session with its system prompt
    render     the prompt of the next model call
    record     a tool call that the harness ran, with its output
    end-turn   the answer; the calls recorded since the last turn belong to it

Nothing is read from the server's disk: a call is stored as it is reported. A request is repeated
safely: the same call is recorded once, and a turn with its number is ended once.
"""

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ctxmgr.errors import Conflict, Incorrect
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.core.client.live_session import LiveSession
    from ctxmgr.core.store.contract import Store
    from ctxmgr.surfaces.operations.agents.open_sessions import (
        EndedTurn,
        RenderedPrompt,
        ReportedToolCall,
        StartedSession,
    )

SessionId = Annotated[str, Param("The session's id.", metavar="SESSION")]


async def start_session(
    app: "App",
    session: SessionId,
    *,
    system_prompt: Annotated[str, Param("The system prompt.")] = "",
    policy: Annotated[
        Literal["plain", "compact", "economy"], Param("How its prompts are rendered.")
    ] = "economy",
) -> "StartedSession":
    """Start a session for a harness that is not written in Python.

    It is an error if the session exists.
    """
    from ctxmgr.app import connect
    from ctxmgr.surfaces.operations.agents.open_sessions import StartedSession

    async with connect(store=await app.store(), tracking=False) as client:
        live = await client.start(session, system_prompt=system_prompt, policy=policy)
        await client.pause(session)
    return StartedSession(session_id=live.session_id, turn=1, policy=policy)


async def render_prompt(
    app: "App",
    session: SessionId,
    *,
    user: Annotated[str, Param("The new message of the user, if there is one.")] = "",
    form: Annotated[
        Literal["text", "anthropic", "openai"], Param("The API that the prompt is for.")
    ] = "openai",
) -> "RenderedPrompt":
    """Return the prompt of a session's next model call.

    The request holds the arguments that depend on the prompt: messages and, for Anthropic, system.
    Model, tools and limits are added by the harness.
    """
    from ctxmgr.surfaces.operations.agents.open_sessions import RenderedPrompt, open_session

    live = await open_session(await app.store(), session)
    rendered = await live.render(user, form=form)
    return RenderedPrompt(
        session_id=live.session_id,
        turn=live.turn,
        text=rendered if isinstance(rendered, str) else None,
        request={} if isinstance(rendered, str) else rendered,
    )


async def record_call(
    app: "App",
    session: SessionId,
    call_id: Annotated[str, Param("The call's id in the model's answer.", metavar="CALL")],
    tool: Annotated[str, Param("The tool's name.", metavar="TOOL")],
    *,
    args: Annotated[str, Param("The arguments: a JSON object.", metavar="JSON")] = "{}",
    output: Annotated[str, Param("What the model is shown of its result.")] = "",
    status: Annotated[Literal["ok", "fail"], Param("Whether it succeeded.")] = "ok",
) -> "ReportedToolCall":
    """Store a tool call that a harness ran.

    It belongs to the current turn of the session.
    """
    from ctxmgr.messages.answers import ToolCallIds
    from ctxmgr.surfaces.operations.agents.open_sessions import ReportedToolCall, open_session

    live = await open_session(await app.store(), session)
    object_id = ToolCallIds(live.session_id, turn=live.turn, unique=False).assign(call_id)
    call = await live.record(
        object_id, tool=tool, args=_object(args), output=output, status=status, discover=False
    )
    return ReportedToolCall(
        session_id=live.session_id,
        turn=live.turn,
        object_id=call.object_id,
        status=call.status,
        characters=len(call.content or ""),
    )


async def end_turn(
    app: "App",
    session: SessionId,
    *,
    turn: Annotated[int, Param("The number of the turn, as render returned it.")],
    answer: Annotated[str, Param("The text of the model's answer.")] = "",
    user: Annotated[str, Param("The message that the prompt was rendered with.")] = "",
    model: Annotated[str | None, Param("The model that answered.")] = None,
    stop_reason: Annotated[str | None, Param("Why it stopped, as the provider says it.")] = None,
    input_tokens: Annotated[int, Param("Tokens that no cache had.")] = 0,
    cache_read_tokens: Annotated[int, Param("Tokens that a cache had.")] = 0,
    cache_written_tokens: Annotated[int, Param("Tokens that were written to a cache.")] = 0,
    output_tokens: Annotated[int, Param("Tokens of the answer.")] = 0,
) -> "EndedTurn":
    """Store a turn with its answer.

    The tool calls that were recorded since the last turn belong to it. A turn that was stored
    already with the same answer is not stored again.
    """
    from ctxmgr.core.model import Usage, to_value
    from ctxmgr.core.objects.chat import AssistantMeta
    from ctxmgr.surfaces.operations.agents.open_sessions import EndedTurn, open_session

    store = await app.store()
    live = await open_session(store, session)
    if turn != live.turn:
        _require_same(live, turn, user=user, answer=answer)
        ended = live.chat.turns[turn - 1]
        return EndedTurn(
            session_id=live.session_id, turn=turn, tool_calls=len(ended.toolcall_ids), repeated=True
        )
    usage = Usage(
        input_tokens=input_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_written_tokens=cache_written_tokens,
        output_tokens=output_tokens,
    )
    meta = AssistantMeta(
        model=model, stopReason=stop_reason, usage=to_value(usage) if output_tokens else None
    )
    if live.sent is None:  # the server was restarted, or another client has changed the session
        await live.render(user)
    parts = await _parts(store, live, answer)
    number = await live.end_turn(parts, user=user, meta=meta)
    calls = live.chat.turns[number - 1].toolcall_ids
    return EndedTurn(session_id=live.session_id, turn=number, tool_calls=len(calls), repeated=False)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Incorrect(f"args is not valid JSON: {error!s:.200}") from error
    if not isinstance(value, dict):
        raise Incorrect(f"args must be a JSON object, not {text!r:.80}")
    return value


def _require_same(live: "LiveSession", turn: int, *, user: str, answer: str) -> None:
    """Raise unless this turn has been stored with this answer."""
    if not 1 <= turn < live.turn:
        raise Incorrect(f"turn {turn} cannot end: the current one is {live.turn}")
    stored = live.chat.turns[turn - 1]
    text = "".join(part["text"] for part in stored.assistant if part["type"] == "text")
    if (stored.user, text) != (user, answer):
        raise Conflict((live.chat.object_id,))


async def _parts(store: "Store", live: "LiveSession", answer: str) -> list[dict[str, Any]]:
    """Return the answer's text, and the calls that were recorded since the last turn."""
    from ctxmgr.core.objects.answers import text_part, toolcall_part

    parts = [text_part(answer)] if answer else []
    prefix = f"{live.session_id}:{live.turn}:"
    recorded = await store.get_many(live.pending_calls)
    for object_id in live.pending_calls:
        call = recorded[object_id].document
        call_id = object_id.removeprefix(prefix)
        parts.append(
            toolcall_part(object_id, call_id=call_id, tool=call["tool"], args=call["args"])
        )
    return parts
