"""A small agent loop: render, ask, run the tools, store the turn, again. On public names only.

    take_turn   prompt ─► model ─► answer ─► its tool calls, in the sandbox ─► one stored turn
    work        turns until the model asks for no more tools, or a bound is reached

A turn is stored whole or not at all. Cancelled while the model speaks, nothing of it is stored.
Cancelled while a tool runs, the tool is ended and the turn is stored with what was run; whoever
goes on shows the model that the rest was not.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ctxmgr import Economy
from ctxmgr.core.assembly import Section
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.model import OUTPUT_TOKENS_MAX, Ended, Ledger, Model, Request, Stop
from ctxmgr.core.tokens import TokenCounter
from ctxmgr.core.tools import Definition, Tools
from ctxmgr.core.uncut import uncut
from ctxmgr.errors import AnswerLost, Incorrect
from ctxmgr.harness.happenings import Began, Finished, Happening, Lost, Ran
from ctxmgr.messages import anthropic, openai
from ctxmgr.messages.conversation import Answer
from ctxmgr.messages.tool_definitions import for_anthropic, for_openai

TURNS_MAX: Final = 50
"""Of one piece of work: enough for an hour's task, and a model that runs in circles stops."""

ANSWERS_MAX: Final = 3
"""Asked for in one turn while they break off: a connection that cuts three is broken."""

ANSWER_SECONDS_MAX: Final = 30 * 60
"""For one answer, however slowly it comes."""

PURPOSE: Final = "turn"
"""What the loop's calls are booked under."""


class _Form(NamedTuple):
    read_answer: Callable[..., Answer]
    told: Callable[[Iterable[Definition]], list[dict[str, Any]]]
    """Gives definitions of tools as a model is told of them."""


_FORMS: Final = {
    anthropic.API: _Form(anthropic.read_answer, for_anthropic),
    openai.API: _Form(openai.read_answer, for_openai),
}


class Outcome(StrEnum):
    """Why the work ended."""

    DONE = "done"
    TURNS_MAX = "turns_max"
    LENGTH = "length"
    """The model's answer reached its limit of tokens."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """A piece of work, as far as it came."""

    outcome: Outcome
    answer: str = field(repr=False)
    """The last words of the model."""
    turns: tuple[Finished, ...]
    ledger: Ledger


async def work(
    session: LiveSession,
    *,
    model: Model,
    user: str,
    turns_max: int = TURNS_MAX,
    output_tokens_max: int = OUTPUT_TOKENS_MAX,
    hear: Callable[[Happening], None] = lambda _: None,
    counter: TokenCounter | None = None,
    policy: str | Economy | None = None,
) -> Worked:
    """Take turns until the model is done; ``user`` is new before the first, and may be empty.

    ``policy`` is that of ``render``; without one prompts are the plain four sections. Every turn
    that was told as ``Finished`` is stored, whatever is raised afterwards.
    """
    check_bounds(turns_max=turns_max, output_tokens_max=output_tokens_max)
    turns: list[Finished] = []
    counter, ledger, outcome = counter or TokenCounter(), Ledger(), Outcome.TURNS_MAX
    while outcome is Outcome.TURNS_MAX and len(turns) < turns_max:
        turn = await take_turn(
            session,
            model=model,
            user=user,
            output_tokens_max=output_tokens_max,
            hear=hear,
            counter=counter,
            policy=policy,
        )
        turns.append(turn)
        ledger, user, outcome = ledger.charged(turn.charge), "", _outcome(turn)
    return Worked(outcome=outcome, answer=turns[-1].text, turns=tuple(turns), ledger=ledger)


def check_bounds(*, turns_max: int, output_tokens_max: int) -> None:
    """Raise ``Incorrect`` for bounds that leave room for no answer."""
    if turns_max < 1:
        raise Incorrect(f"turns_max is 1 or more, not {turns_max}")
    if output_tokens_max < 1:
        raise Incorrect(f"output_tokens_max is 1 or more, not {output_tokens_max}")


async def take_turn(
    session: LiveSession,
    *,
    model: Model,
    user: str = "",
    output_tokens_max: int = OUTPUT_TOKENS_MAX,
    hear: Callable[[Happening], None] = lambda _: None,
    counter: TokenCounter,
    policy: str | Economy | None = None,
) -> Finished:
    """Ask the model once and run what it asks for; the turn is stored when this returns.

    ``counter`` remembers what it has counted: give the same one to all turns.
    """
    tools = Tools(session)
    sections = await _sections(session, user, counter=counter, policy=policy)
    prompt = await session.render(user, form=model.form, policy=policy)
    hear(Began(turn=session.turn))
    request = Request(
        payload=prompt,
        purpose=PURPOSE,
        tools=tuple(_form(model).told(tools.definitions)),
        output_tokens_max=output_tokens_max,
    )
    ended = await _answered(model, request, hear)
    answer = _read(ended, session=session, model=model)
    try:
        await _run_tools(tools, answer, hear)
    finally:  # also when cancelled, or when the store refused a call: what was run was run
        finished = Finished(
            turn=await uncut(session.end_turn(answer.parts, meta=answer.meta)),
            text="".join(part["text"] for part in answer.parts if part["type"] == "text"),
            tools=tuple(call.tool for call in answer.asked),
            stop=ended.stop,
            charge=ended.charge,
            sections=sections,
            levels=_levels(session),
        )
        hear(finished)
    return finished


async def _sections(
    session: LiveSession, user: str, *, counter: TokenCounter, policy: str | Economy | None
) -> dict[str, int]:
    """Count the prompt by section; under a policy everything after the system prompt is one."""
    plain = session.context(user)
    if policy is None:
        return counter.count_sections(plain.blocks())
    text: str = await session.render(user, policy=policy)
    system, chat = plain.system_prompt, text.removeprefix(plain.system_prompt)
    return {Section.SYSTEM: counter.count(system), Section.CHAT: counter.count(chat)}


async def _answered(model: Model, request: Request, hear: Callable[[Happening], None]) -> Ended:
    for _ in range(ANSWERS_MAX - 1):
        try:
            return await _streamed(model, request, hear)
        except AnswerLost as error:
            hear(Lost(reason=str(error)))
    return await _streamed(model, request, hear)


async def _streamed(model: Model, request: Request, hear: Callable[[Happening], None]) -> Ended:
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX), aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Ended):
                    return piece
                hear(piece)
    except TimeoutError as error:
        raise AnswerLost(f"{model.name} took longer than {ANSWER_SECONDS_MAX} s") from error
    raise AnswerLost(f"{model.name} ended its answer without saying so")


def _read(ended: Ended, *, session: LiveSession, model: Model) -> Answer:
    return _form(model).read_answer(
        ended.reply,
        session_id=session.session_id,
        turn=session.turn,
        unique_ids=model.unique_ids,
        taken=session.sets.session_index,
        timestamp=time.time_ns() // 1_000_000,
    )


async def _run_tools(tools: Tools, answer: Answer, hear: Callable[[Happening], None]) -> None:
    for call in answer.asked:
        result = await tools.dispatch(call.toolcall_id, name=call.tool, args=call.args)
        hear(Ran(tool=call.tool, ok=result.ok, message=result.message))


def _form(model: Model) -> _Form:
    if model.form not in _FORMS:
        known = ", ".join(sorted(_FORMS))
        raise Incorrect(
            f"{model.name} takes {model.form!r:.80}, which has no tools; known: {known}"
        )
    return _FORMS[model.form]


def _outcome(turn: Finished) -> Outcome:
    if turn.tools:
        return Outcome.TURNS_MAX  # unless there is a next turn
    match turn.stop:
        case Stop.LENGTH:
            return Outcome.LENGTH
        case Stop.REFUSED:
            return Outcome.REFUSED
        case _:
            return Outcome.DONE


def _levels(session: LiveSession) -> dict[str, int]:
    sets = session.sets
    return {
        "active": len(sets.active_set),
        "metadata": len(sets.metadata_pool) - len(sets.active_set),
        "indexed": len(sets.session_index) - len(sets.metadata_pool),
        "pinned": len(sets.pinned_set),
    }
