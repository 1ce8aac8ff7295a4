"""A small agent loop: render, call the model, run its tools, store the turn, repeat.

    take_turn   prompt ─► model ─► answer ─► its tool calls, in the sandbox ─► one stored turn
    work        turns until the model calls no more tools, or a limit is reached

A turn is stored completely or not at all. If the loop is cancelled while the model answers, nothing
of the turn is stored. If it is cancelled while a tool runs, the tool is terminated and the turn is
stored; the next prompt shows that the remaining calls were not run. Uses public names only.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ctxmgr import Economy
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.tools import Tools
from ctxmgr.core.context.assembly import Context, Section
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.model import OUTPUT_TOKENS_MAX, AnswerDone, Ledger, Model, Request, Stop
from ctxmgr.core.prices import PriceList
from ctxmgr.core.store.commits import finish_despite_cancel
from ctxmgr.errors import AnswerLost, Incorrect
from ctxmgr.harness.budget import Budget
from ctxmgr.harness.loop_events import (
    AnswerRestarted,
    BudgetReached,
    LoopEvent,
    ToolRan,
    TurnEnded,
    TurnStarted,
)
from ctxmgr.messages.answers import Answer, answer_text
from ctxmgr.messages.forms import FORMS, MessageApi

TURNS_MAX: Final = 50
"""Enough for a task of an hour; stops a model that makes no progress."""

ANSWERS_MAX: Final = 3
"""Requests for one answer while the connection breaks off."""

ANSWER_SECONDS_MAX: Final = 30 * 60
"""For one answer."""

LIST_PRICES: Final = PriceList()

PURPOSE: Final = "turn"
"""The purpose of the loop's calls in the ledger."""


class LoopOutcome(StrEnum):
    """Why the work ended."""

    DONE = "done"
    MAX_TURNS = "max_turns"
    MAX_USD = "max_usd"
    """The next call would have exceeded the budget, and was not made."""
    LENGTH = "length"
    """The answer reached its token limit."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopResult:
    """The result of ``work``."""

    outcome: LoopOutcome
    answer: str = field(repr=False)
    """The text of the last answer."""
    turns: tuple[TurnEnded, ...]
    ledger: Ledger


async def work(
    session: LiveSession,
    *,
    model: Model,
    user: str,
    max_turns: int = TURNS_MAX,
    max_usd: float | None = None,
    prices: PriceList = LIST_PRICES,
    output_tokens_max: int = OUTPUT_TOKENS_MAX,
    on_event: Callable[[LoopEvent], None] = lambda _: None,
    counter: TokenCounter | None = None,
    policy: str | Economy | None = None,
) -> LoopResult:
    """Take turns until the model calls no more tools; ``user`` is the message of the first turn.

    ``user`` may be empty. ``policy`` overrides that of the session. ``on_event`` is called with
    each event. A turn whose ``TurnEnded`` was sent is stored, whatever is raised afterwards.

    With ``max_usd``, the work ends before a call that would exceed it, as estimated from the tokens
    of its prompt; ``Incorrect`` if ``prices`` do not have the model. The answer of the last call
    may exceed it. A message of the user that was not sent is not stored.
    """
    check_bounds(max_turns=max_turns, output_tokens_max=output_tokens_max)
    turns: list[TurnEnded] = []
    budget = Budget.of(max_usd, prices=prices, model=model.name)
    counter, ledger, outcome = counter or TokenCounter(), Ledger(), LoopOutcome.MAX_TURNS
    while outcome is LoopOutcome.MAX_TURNS and len(turns) < max_turns:
        turn = await take_turn(
            session,
            model=model,
            user=user,
            output_tokens_max=output_tokens_max,
            on_event=on_event,
            counter=counter,
            policy=policy,
            budget=budget,
        )
        if turn is None:
            outcome = LoopOutcome.MAX_USD
            break
        turns.append(turn)
        ledger, user, outcome = ledger.charged(turn.charge), "", _outcome(turn)
        if budget is not None:
            budget = budget.charged(turn.charge.usage, prompt_tokens=sum(turn.sections.values()))
    answer = turns[-1].text if turns else ""
    return LoopResult(outcome=outcome, answer=answer, turns=tuple(turns), ledger=ledger)


def check_bounds(*, max_turns: int, output_tokens_max: int) -> None:
    """Raise ``Incorrect`` for limits that allow no answer."""
    if max_turns < 1:
        raise Incorrect(f"max_turns must be at least 1, not {max_turns}")
    if output_tokens_max < 1:
        raise Incorrect(f"output_tokens_max must be at least 1, not {output_tokens_max}")


async def take_turn(
    session: LiveSession,
    *,
    model: Model,
    user: str = "",
    output_tokens_max: int = OUTPUT_TOKENS_MAX,
    on_event: Callable[[LoopEvent], None] = lambda _: None,
    counter: TokenCounter,
    policy: str | Economy | None = None,
    budget: Budget | None = None,
) -> TurnEnded | None:
    """Call the model once, run the tools that it calls, and store the turn.

    ``counter`` caches its counts: pass the same one for all turns. If the budget does not allow the
    call, nothing is sent or stored, and None is returned.
    """
    tools = Tools(session)
    prompt = await session.render(user, form=model.form, policy=policy)
    assert session.sent is not None
    chosen = session.policy if policy is None else policy
    economy = isinstance(chosen, Economy) or chosen == Economy.name
    sections = _sections(session.sent, counter=counter, economy=economy)
    prompt_tokens = sum(sections.values())
    if budget is not None and not budget.allows(prompt_tokens):
        on_event(
            BudgetReached(
                max_usd=budget.max_usd,
                spent_usd=budget.spent_usd,
                next_usd=budget.estimate(prompt_tokens),
            )
        )
        return None
    on_event(TurnStarted(turn=session.turn, user=user))
    request = Request(
        payload=prompt,
        purpose=PURPOSE,
        tools=tuple(_api(model).tool_definitions(tools.definitions)),
        output_tokens_max=output_tokens_max,
    )
    ended = await _answered(model, request, on_event)
    answer = _read(ended, session=session, model=model)
    try:
        for call in answer.calls:
            result = await tools.dispatch(call.toolcall_id, name=call.tool, args=call.args)
            on_event(
                ToolRan(
                    tool=call.tool,
                    ok=result.ok,
                    message=result.message,
                    toolcall_id=call.toolcall_id,
                    call_id=call.call_id,
                )
            )
    finally:  # also if cancelled or if a call could not be stored: some tools may have run
        finished = TurnEnded(
            turn=await finish_despite_cancel(session.end_turn(answer.parts, meta=answer.meta)),
            text=answer_text(answer.parts, separator=""),
            tools=tuple(call.tool for call in answer.calls),
            stop=ended.stop,
            charge=ended.charge,
            sections=sections,
            levels=session.sets.level_counts(),
            stop_reason=answer.meta.stopReason,
        )
        on_event(finished)
    return finished


def _sections(context: Context, *, counter: TokenCounter, economy: bool) -> dict[str, int]:
    """Count a prompt by section; in the economy layout, all after the system prompt is one."""
    if not economy:
        return counter.count_sections(context.blocks())
    system = context.system_prompt
    chat = context.text().removeprefix(system)
    return {Section.SYSTEM: counter.count(system), Section.CHAT: counter.count(chat)}


async def _answered(
    model: Model, request: Request, on_event: Callable[[LoopEvent], None]
) -> AnswerDone:
    for _ in range(ANSWERS_MAX - 1):
        try:
            return await _streamed(model, request, on_event)
        except AnswerLost as error:
            on_event(AnswerRestarted(reason=str(error)))
    return await _streamed(model, request, on_event)


async def _streamed(
    model: Model, request: Request, on_event: Callable[[LoopEvent], None]
) -> AnswerDone:
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX), aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, AnswerDone):
                    return piece
                on_event(piece)
    except TimeoutError as error:
        raise AnswerLost(f"{model.name} took longer than {ANSWER_SECONDS_MAX} s") from error
    raise AnswerLost(f"{model.name} ended its stream without an end of the answer")


def _read(ended: AnswerDone, *, session: LiveSession, model: Model) -> Answer:
    return _api(model).read_answer(
        ended.reply,
        session_id=session.session_id,
        turn=session.turn,
        unique_ids=model.unique_ids,
        taken=session.sets.session_index,
        timestamp=time.time_ns() // 1_000_000,
    )


def _api(model: Model) -> MessageApi:
    form = FORMS.get(model.form)
    if form is None or form.api is None:
        known = ", ".join(sorted(name for name, form in FORMS.items() if form.api is not None))
        raise Incorrect(f"{model.name} takes the unknown form {model.form!r:.80} (one of: {known})")
    return form.api


def _outcome(turn: TurnEnded) -> LoopOutcome:
    if turn.tools:
        return LoopOutcome.MAX_TURNS  # unless there is a next turn
    match turn.stop:
        case Stop.LENGTH:
            return LoopOutcome.LENGTH
        case Stop.REFUSED:
            return LoopOutcome.REFUSED
        case _:
            return LoopOutcome.DONE
