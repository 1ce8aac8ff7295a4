"""Answers as they come over the wire, whole and broken, in both APIs."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from ctxmgr.core.model import Called, Ended, Stop, Usage
from ctxmgr.errors import AnswerLost, ModelUnavailable
from ctxmgr.models import transport
from ctxmgr.models.anthropic_events import AnthropicReading
from ctxmgr.models.choice import HttpModel
from ctxmgr.models.openai_events import OpenAIReading
from ctxmgr.models.streaming import Reading
from ctxmgr.models.transport import TRIES_MAX
from tests.models import wire
from tests.models.asking import made, pieces_of, told
from tests.models.model_server import APIS, ModelServer, breaks, says
from tests.models.wire import Call, Text

ANSWER = says(Text("Let me look: é\u2028漢"), Call("ls", {"path": "src"}), Call("pin", {"id": "f"}))
READINGS: dict[str, Callable[..., Reading]] = {
    "anthropic": AnthropicReading,
    "openai": OpenAIReading,
}
SILENCE_S = 1.0


async def test_an_answer_comes_in_pieces_and_then_whole(
    server: ModelServer, model: HttpModel
) -> None:
    """What a person saw streamed is what the turn stores; ids that repeat are told apart.

    Rows: 003-A20.
    """
    server.script(ANSWER)

    text, calls, answer = told(await pieces_of(model))

    assert text == "Let me look: é\u2028漢"
    assert calls == [Called(tool="ls", args={"path": "src"}), Called(tool="pin", args={"id": "f"})]
    assert answer.parts[0] == {"type": "text", "text": text}
    assert [call.toolcall_id for call in answer.asked] == ["s:1:call_0", "s:1:call_0.2"]
    assert answer.asked[0].args == {"path": "src"}


async def test_the_last_piece_says_why_it_ended_and_what_it_cost(
    server: ModelServer, model: HttpModel
) -> None:
    """The two APIs count differently; here the four figures never overlap."""
    server.script(ANSWER)

    ended = (await pieces_of(model))[-1]

    written = wire.USAGE["written"] if model.form == "anthropic" else 0
    assert isinstance(ended, Ended)
    assert ended.stop is Stop.TOOLS
    assert ended.charge.usage == Usage(
        input_tokens=40, cache_read_tokens=60, cache_written_tokens=written, output_tokens=7
    )


@pytest.mark.parametrize("api", APIS)
def test_no_beginning_of_an_answer_is_an_answer(api: str) -> None:
    """A cut can come after any event; whatever came before it must never be stored as an answer."""
    events = [_data(event) for event in getattr(wire, api)(ANSWER.parts)]
    final = len(events) if api == "anthropic" else len(events) - 2  # usage and [DONE] come after

    for length in range(final):
        reading = READINGS[api](purpose="test", model="m")
        for event in events[:length]:
            list(reading.feed(event))
        with pytest.raises(AnswerLost):
            reading.ended()


@pytest.mark.parametrize("then", ["cut", "end"])
@pytest.mark.parametrize("after", [4, 8])
async def test_a_stream_that_breaks_off_is_an_error(
    server: ModelServer, model: HttpModel, after: int, then: Literal["cut", "end"]
) -> None:
    """In the middle of text, and of a tool call; by a broken line, or by a polite proxy."""
    server.script(breaks(ANSWER, after=after, then=then))

    with pytest.raises(AnswerLost, match="broke off"):
        await pieces_of(model)

    assert len(server.requests) == 1


async def test_an_event_that_is_no_json_loses_the_answer(
    server: ModelServer, model: HttpModel
) -> None:
    """Half understood is not understood."""
    server.script(replace(ANSWER, alter=lambda event: event.replace("}\n\n", "\n\n")))

    with pytest.raises(AnswerLost, match="sent no JSON"):
        await pieces_of(model)


async def test_an_event_of_another_shape_loses_the_answer(
    server: ModelServer, model: HttpModel
) -> None:
    """The message names the field, so that somebody can report it."""
    server.script(replace(ANSWER, alter=lambda e: e.replace('"index": 0', '"index": "x"')))

    with pytest.raises(AnswerLost, match=r"bad event: .*index"):
        await pieces_of(model)


async def test_an_error_in_the_middle_of_a_stream_is_told(
    server: ModelServer, model: HttpModel
) -> None:
    """A provider that is overloaded says so after it has begun."""
    overloaded = 'data: {"type": "error", "error": {"message": "Overloaded"}}\n\n'
    server.script(replace(breaks(ANSWER, after=5, then="end"), alter=_nth(4, overloaded)))

    with pytest.raises(AnswerLost, match="Overloaded"):
        await pieces_of(model)


async def test_events_may_be_written_in_any_legal_way(
    server: ModelServer, model: HttpModel
) -> None:
    """Comments, other line ends and unknown fields are part of the format."""
    server.script(
        replace(ANSWER, alter=lambda e: ": a comment\nretry: 5\n\n".replace("\n", "\r\n") + e)
    )

    text, calls, _ = told(await pieces_of(model))

    assert text == "Let me look: é\u2028漢"
    assert len(calls) == 2


@pytest.mark.parametrize("size", [1, 3])
async def test_an_answer_may_come_in_the_smallest_pieces(
    server: ModelServer, model: HttpModel, size: int
) -> None:
    """Events, lines and characters are cut anywhere on their way."""
    server.script(replace(ANSWER, bytes_at_once=size))

    text, calls, _ = told(await pieces_of(model))

    assert text == "Let me look: é\u2028漢"
    assert len(calls) == 2


@pytest.mark.parametrize("api", APIS)
async def test_a_stream_that_falls_silent_ends(server: ModelServer, api: str) -> None:
    """Nobody waits for ever; on a slow machine the silence may come before the first event."""
    server.script(*[breaks(ANSWER, after=4, then="hang")] * TRIES_MAX)

    async with made(api, server, silence_s=SILENCE_S) as model:
        with pytest.raises(ModelUnavailable):
            await pieces_of(model)


async def test_leaving_a_stream_ends_the_request(server: ModelServer, model: HttpModel) -> None:
    """Whoever interrupts an answer does not pay for the rest of it."""
    server.script(breaks(ANSWER, after=6, then="hang"))
    asking = asyncio.create_task(pieces_of(model))
    await asyncio.wait_for(server.silent.wait(), 20)

    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.wait_for(server.gone.wait(), 20)


async def test_an_endless_answer_ends(
    server: ModelServer, model: HttpModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that never ends a line must not fill the memory."""
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 10_000)
    server.script(replace(ANSWER, alter=lambda event: "x" * 5_000))

    with pytest.raises(AnswerLost, match="more than 10000 bytes"):
        await pieces_of(model)


@pytest.mark.parametrize(
    ("api", "word", "stop"),
    [
        ("anthropic", "max_tokens", Stop.LENGTH),
        ("anthropic", "refusal", Stop.REFUSED),
        ("anthropic", "some_new_reason", Stop.OTHER),
        ("openai", "length", Stop.LENGTH),
        ("openai", "content_filter", Stop.REFUSED),
    ],
)
async def test_why_an_answer_ended_has_one_word_for_all(
    server: ModelServer, api: str, word: str, stop: Stop
) -> None:
    """A loop decides by it, whoever the provider is."""
    server.script(says(Text("Well"), stop=word))

    async with made(api, server) as model:
        ended = (await pieces_of(model))[-1]

    assert isinstance(ended, Ended)
    assert ended.stop is stop


async def test_arguments_that_are_no_json_stay_as_they_were_written(
    server: ModelServer, model: HttpModel
) -> None:
    """The model is told what it wrote, and can do better."""
    server.script(
        replace(says(Call("ls", {"path": "src"})), alter=lambda e: e.replace('src\\"}', 'src\\"'))
    )

    _, (call,), answer = told(await pieces_of(model))

    assert call == Called(tool="ls", args='{"path": "src"')
    assert answer.asked[0].malformed
    assert answer.asked[0].args == {"raw": '{"path": "src"'}


async def test_numbers_of_any_size_go_both_ways(server: ModelServer, model: HttpModel) -> None:
    """What a document holds, a request can hold."""
    server.script(says(Call("count", {"n": 2**70})))

    _, (call,), _ = told(
        await pieces_of(model, {"messages": [{"role": "user", "n": 2**70, "content": "x"}]})
    )

    assert call.args == {"n": 2**70}
    assert server.requests[0].body["messages"][0]["n"] == 2**70


def _data(event: str) -> str:
    return event.partition("data: ")[2].strip()


def _nth(n: int, other: str) -> Callable[[str], str]:
    """Replace the n-th event."""
    seen = iter(range(1_000))
    return lambda event: other if next(seen) == n else event
