"""A model judges what rules cannot, once per pair and content."""

from collections.abc import AsyncIterator

import pytest

from ctxmgr import AnswerDone, AnswerPart, Charge, Request, Stop, Store, TextDelta, Usage
from ctxmgr.core.store.contract import Query
from ctxmgr.errors import ModelUnavailable
from ctxmgr.memory import pruning
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.learning_kinds import VERDICT
from ctxmgr.memory.tiers.assembly import Signals
from tests.memory.conftest import ADA

PARIS = Fact(key="office", value="the office is in Paris")
BERLIN = Fact(key="address of the company", value="our office moved to Berlin")


class Judge:
    """A model that gives one answer to every question, or none."""

    name = "judge"

    def __init__(self, answer: str | None) -> None:
        self._answer = answer
        self.asked: list[str] = []

    async def stream(self, request: Request) -> AsyncIterator[AnswerPart]:
        self.asked.append(str(request.payload))
        if self._answer is None:
            raise ModelUnavailable("no model today")
        yield TextDelta(text=self._answer)
        charge = Charge(model=self.name, purpose=request.purpose, usage=Usage())
        yield AnswerDone(stop=Stop.DONE, charge=charge, reply={})


async def test_a_model_finds_what_rules_cannot_and_is_asked_once(store: Store) -> None:
    """001-R138, 001-R069, 001-R070, 001-A21: cached by the pair and what it says."""
    judge = Judge("NO: the office cannot be in two cities")
    living = LivingMemory(store, ADA, model=judge)
    await living.add(PARIS)
    added = await living.add(BERLIN)
    (pair,) = added.contradictions
    assert pair.reason == "the office cannot be in two cities"
    assert (pair.memory_b, len(judge.asked)) == (added.memory.id, 1)

    again = LivingMemory(store, ADA, model=judge)
    assert len(await again.scanner.scan(added.memory)) == 1
    assert len(judge.asked) == 1
    await again.edit(added.memory.id, Fact(key=BERLIN.key, value="our office stays in Paris"))
    assert len(judge.asked) == 2


async def test_no_prompt_waits_for_a_model(store: Store) -> None:
    """001-A22: a model judges what is stored; what is served asks none."""
    judge = Judge("NO: the office cannot be in two cities")
    living = LivingMemory(store, ADA, model=judge)
    await living.add(PARIS)
    await living.add(BERLIN)
    asked = len(judge.asked)

    shown = await living.assemble_context(signals=Signals(message="where is our office?"))
    await living.prediction.on_file_open("src/office.py", text="import city")
    found = await living.search("our office")

    assert "Unresolved" in shown.context
    assert len(found) == 2
    assert len(judge.asked) == asked > 0


async def test_without_a_verdict_nothing_is_reported(store: Store) -> None:
    """A model that fails, or answers something else, must not lose the memory."""
    for answer in (None, "YES", "I would rather not say"):
        living = LivingMemory(store, ADA, model=Judge(answer))
        await living.add(PARIS)
        added = await living.add(Fact(key=f"address {answer}", value="our office is in Rome"))
        assert added.contradictions == ()


async def test_verdicts_about_what_ended_are_pruned(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model said is kept while it saves a question, and within a bound."""
    living = LivingMemory(store, ADA, model=Judge("YES"))
    paris = (await living.add(PARIS)).memory
    await living.add(BERLIN)
    await living.add(Fact(key="office address", value="the office moved to the river"))
    before = await _verdicts(store)
    await living.consolidate(dry_run=True)
    assert await _verdicts(store) == before == 3

    await living.forget(paris.id)
    await living.consolidate()
    assert await _verdicts(store) == 1

    monkeypatch.setattr(pruning, "VERDICTS_KEPT_MAX", 0)
    await living.consolidate()
    assert await _verdicts(store) == 0


async def _verdicts(store: Store) -> int:
    return len((await store.find(Query(VERDICT))).versions)
