"""A model that writes the notes of a summary, and what happens without its answer."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

import ctxmgr
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.history import compactions
from ctxmgr.core.model import AnswerDone, AnswerPart, Charge, Request, Stop, TextDelta, Usage
from ctxmgr.core.objects.compaction import CompactionRecord
from ctxmgr.core.sessions.storage import compaction_ids
from ctxmgr.errors import ModelUnavailable

POLICY = Economy(window_tokens=3_000)


class Writes:
    """A model that answers with a fixed text, or not at all."""

    name, form, unique_ids = "m1", "text", True

    def __init__(self, text: str | None, *, stop: Stop = Stop.DONE) -> None:
        self.text, self.stop = text, stop
        self.asked: list[str] = []

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        self.asked.append(request.payload)
        if self.text is None:
            raise ModelUnavailable("overloaded")
        yield TextDelta(text=self.text)
        charge = Charge(purpose=request.purpose, model=self.name, usage=Usage(output_tokens=9))
        yield AnswerDone(reply={}, stop=self.stop, charge=charge)


class Waits(Writes):
    """A model that does not answer."""

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        await asyncio.Event().wait()
        yield TextDelta(text=str(request))


async def compacted(model: Writes) -> tuple[str, list[CompactionRecord]]:
    """Return the last prompt of a long session and the records of its compactions."""
    async with ctxmgr.connect(
        "sqlite://:memory:", tracking=False, policy=POLICY, summariser=model
    ) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        for number in range(1, 31):
            prompt = await session.render(f"Do task_{number}.")
            await session.end_turn(f"I'll do it because of reason_{number}. " * 20)
            assert (await client.prompt_as_of("s1", turn=number)).text() == prompt
        stored = await client.store.get_many(await compaction_ids(client.store, "s1"))
    read = [CompactionRecord.from_document(version.document) for version in stored.values()]
    return prompt, sorted(read, key=lambda record: record.range_start)


async def test_a_model_writes_the_notes_and_its_cost_is_recorded() -> None:
    """000-R149: the notes are the model's; what the user said is never left to it."""
    model = Writes("We chose port 8080.")

    prompt, records = await compacted(model)

    assert "Notes:\nWe chose port 8080.\n" in prompt
    assert "(turn 1) Do task_1." in prompt
    assert "because of reason_1." not in prompt.partition("Do task_29.")[0].partition("Notes:")[2]
    assert len(model.asked) == len(records) > 1
    assert "(turn 1) Do task_1." in model.asked[1]
    for record in records:
        assert record.model == "m1"
        assert record.usage is not None
        assert record.usage["output_tokens"] == 9


@pytest.mark.parametrize("model", [Writes(None), Writes("no", stop=Stop.REFUSED)])
async def test_without_an_answer_notes_are_chosen_from_the_turns(model: Writes) -> None:
    """D8: a model that fails or refuses changes nothing but the notes."""
    prompt, records = await compacted(model)

    assert "because of reason_" in prompt.partition("Notes:")[2]
    assert records


async def test_a_model_that_is_late_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering waits for it, so it has a deadline."""
    monkeypatch.setattr(compactions, "NOTES_SECONDS", 0)

    prompt, records = await compacted(Waits("late"))

    assert "late" not in prompt
    assert all(record.model is None for record in records)
