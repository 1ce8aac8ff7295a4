"""A run with a budget in dollars: it ends before the call that would exceed it."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

import ctxmgr
from ctxmgr import (
    AnswerDone,
    AnswerPart,
    Charge,
    Incorrect,
    LiveSession,
    ModelPrice,
    PriceList,
    Request,
    Stop,
    TextDelta,
    Usage,
)
from ctxmgr.harness.budget import Budget
from ctxmgr.harness.loop import LoopOutcome, work
from ctxmgr.harness.loop_events import BudgetReached, LoopEvent, TurnStarted
from ctxmgr.harness.narrator import Narrator

PRICE = ModelPrice(input=1, output=2, cache_read=0.1, cache_write=1, cache_write_1h=1)
PRICES = PriceList({"metered": PRICE})
LS = {"type": "tool_use", "id": "toolu", "name": "ls", "input": {}}


class Metered:
    """A model that calls a tool in every turn until its last, and reports its usage."""

    form, unique_ids = "anthropic", False

    def __init__(self, usage: Usage | None, *, turns: int, name: str = "metered") -> None:
        self.name, self.usage, self.left = name, usage, turns

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        self.left -= 1
        content = [{**LS, "id": f"c{self.left}"}] if self.left else []
        yield TextDelta(text="On.")
        yield AnswerDone(
            reply={"content": [{"type": "text", "text": "On."}, *content]},
            stop=Stop.TOOLS if content else Stop.DONE,
            charge=Charge(purpose=request.purpose, model=self.name, usage=self.usage),
        )


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[LiveSession]:
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as client:
        yield await client.start("s1", system_prompt="Be careful.")


async def test_the_work_ends_before_the_call_that_would_exceed_the_budget(
    session: LiveSession,
) -> None:
    """Every call costs a dollar: three fit into 3.5, the fourth is not made, and it is said so."""
    model = Metered(Usage(input_tokens=1_000_000), turns=9)
    events: list[LoopEvent] = []

    worked = await work(
        session, model=model, user="Go.", max_usd=3.5, prices=PRICES, on_event=events.append
    )

    assert (worked.outcome, len(worked.turns)) == (LoopOutcome.MAX_USD, 3)
    assert (model.left, session.chat.turn_count) == (6, 3)
    reached = events[-1]
    assert isinstance(reached, BudgetReached)
    assert (reached.max_usd, reached.spent_usd) == (3.5, pytest.approx(3))
    assert reached.next_usd > 0.5
    assert sum(isinstance(event, TurnStarted) for event in events) == 3
    lines: list[str] = []
    Narrator(lines.append).on_event(reached)
    assert lines[0].startswith("stopped: $3.0000 of $3.5000 spent, and the next call would cost")


async def test_the_session_goes_on_with_another_budget(session: LiveSession) -> None:
    """Nothing of the call that was not made is left in the session."""
    model = Metered(Usage(input_tokens=1_000_000), turns=3)
    await work(session, model=model, user="Go.", max_usd=1.5, prices=PRICES)

    worked = await work(session, model=model, user="", max_usd=9, prices=PRICES)

    assert (worked.outcome, session.chat.turn_count) == (LoopOutcome.DONE, 3)
    assert [turn.user for turn in session.chat.turns] == ["Go.", "", ""]


async def test_a_first_call_that_is_too_dear_is_not_made(session: LiveSession) -> None:
    """The estimate needs no earlier call: the prompt's tokens have a price."""
    model = Metered(Usage(), turns=1)

    worked = await work(session, model=model, user="Go. " * 1000, max_usd=1e-4, prices=PRICES)

    assert (worked.outcome, worked.answer, worked.turns) == (LoopOutcome.MAX_USD, "", ())
    assert (model.left, session.chat.turn_count) == (1, 0)


async def test_a_call_without_reported_usage_counts_as_estimated(session: LiveSession) -> None:
    """A server that reports nothing does not make the budget endless."""
    model = Metered(None, turns=99)

    worked = await work(session, model=model, user="Go. " * 1000, max_usd=5e-3, prices=PRICES)

    assert worked.outcome is LoopOutcome.MAX_USD
    assert 0 < len(worked.turns) < 10


@pytest.mark.parametrize("max_usd", [0, -1, float("nan"), float("inf")])
async def test_a_budget_has_to_be_an_amount(session: LiveSession, max_usd: float) -> None:
    with pytest.raises(Incorrect, match="max_usd must be more than 0"):
        await work(session, model=Metered(None, turns=1), user="Go.", max_usd=max_usd)


async def test_a_budget_without_a_price_is_refused_at_once(session: LiveSession) -> None:
    """A budget that cannot be kept is worse than none."""
    model = Metered(None, turns=1, name="unheard-of")

    with pytest.raises(Incorrect, match=r"needs the price of 'unheard-of'.*\[prices"):
        await work(session, model=model, user="Go.", max_usd=5)

    assert (model.left, session.chat.turn_count) == (1, 0)


def test_the_estimate_follows_what_the_provider_reports() -> None:
    """It counts tools and framing, which we do not, and reads what it has cached at a tenth."""
    budget = Budget.of(10, prices=PRICES, model="metered")
    assert budget is not None
    usage = Usage(cache_read_tokens=1_500, cache_written_tokens=500, output_tokens=10)

    after = budget.charged(usage, prompt_tokens=1_000)

    assert budget.estimate(1_000) == pytest.approx(1_000 / 1e6)
    assert after.spent_usd == pytest.approx((1_500 * 0.1 + 500 + 20) / 1e6)
    assert after.estimate(2_000) == pytest.approx((2_250 * 0.1 + 750 + 20) / 1e6)
