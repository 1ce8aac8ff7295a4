"""Streamed answers in both APIs, complete and broken off."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from ctxmgr.core.model import AnswerDone, Stop, ToolUse, Usage
from ctxmgr.errors import AnswerLost, ModelUnavailable
from ctxmgr.models import transport
from ctxmgr.models.anthropic import AnthropicAnswer
from ctxmgr.models.open_model import HttpModel
from ctxmgr.models.openai import OpenAIAnswer
from ctxmgr.models.streaming import StreamedAnswer
from ctxmgr.models.transport import TRIES_MAX
from tests.models import wire
from tests.models.model_server import APIS, ModelServer, breaks, says
from tests.models.requests import make_model, read_parts, stream_parts
from tests.models.wire import Call, Text

ANSWER = says(Text("Let me look: é\u2028漢"), Call("ls", {"path": "src"}), Call("pin", {"id": "f"}))
ANSWERS: dict[str, Callable[..., StreamedAnswer]] = {
    "anthropic": AnthropicAnswer,
    "openai": OpenAIAnswer,
}
SILENCE_S = 1.0


async def test_an_answer_is_streamed_and_then_returned_whole(
    server: ModelServer, model: HttpModel
) -> None:
    """The streamed text is what the turn stores; repeated ids are made unique.

    Rows: 003-A20.
    """
    server.script(ANSWER)

    text, calls, answer = read_parts(await stream_parts(model))

    assert text == "Let me look: é\u2028漢"
    assert calls == [
        ToolUse(tool="ls", args={"path": "src"}),
        ToolUse(tool="pin", args={"id": "f"}),
    ]
    assert answer.parts[0] == {"type": "text", "text": text}
    assert [call.toolcall_id for call in answer.calls] == ["s:1:call_0", "s:1:call_0.2"]
    assert answer.calls[0].args == {"path": "src"}


async def test_the_last_part_has_the_stop_reason_and_the_usage(
    server: ModelServer, model: HttpModel
) -> None:
    """The APIs count differently; the four figures of ``Usage`` never overlap."""
    server.script(ANSWER)

    done = (await stream_parts(model))[-1]

    written = wire.USAGE["written"] if model.form == "anthropic" else 0
    assert isinstance(done, AnswerDone)
    assert done.stop is Stop.TOOLS
    assert done.charge.usage == Usage(
        input_tokens=40, cache_read_tokens=60, cache_written_tokens=written, output_tokens=7
    )


@pytest.mark.parametrize("api", APIS)
def test_no_prefix_of_a_stream_is_an_answer(api: str) -> None:
    """A stream may break off after any event; the events before must never be stored."""
    events = [_data(event) for event in getattr(wire, api)(ANSWER.parts)]
    final = len(events) if api == "anthropic" else len(events) - 2  # usage and [DONE] come after

    for length in range(final):
        answer = ANSWERS[api](purpose="test", model="m")
        for event in events[:length]:
            list(answer.feed(event))
        with pytest.raises(AnswerLost):
            answer.result()


@pytest.mark.parametrize("then", ["cut", "end"])
@pytest.mark.parametrize("after", [4, 8])
async def test_a_stream_that_breaks_off_is_an_error(
    server: ModelServer, model: HttpModel, after: int, then: Literal["cut", "end"]
) -> None:
    """In the middle of text or of a tool call; by a lost connection or an early end."""
    server.script(breaks(ANSWER, after=after, then=then))

    with pytest.raises(AnswerLost, match="broke off"):
        await stream_parts(model)

    assert len(server.requests) == 1


async def test_invalid_json_loses_the_answer(server: ModelServer, model: HttpModel) -> None:
    """An answer that was only partly read must not be stored."""
    server.script(replace(ANSWER, alter=lambda event: event.replace("}\n\n", "\n\n")))

    with pytest.raises(AnswerLost, match="sent invalid JSON"):
        await stream_parts(model)


async def test_an_invalid_event_loses_the_answer(server: ModelServer, model: HttpModel) -> None:
    """The message names the field, so that the error can be reported."""
    server.script(replace(ANSWER, alter=lambda e: e.replace('"index": 0', '"index": "x"')))

    with pytest.raises(AnswerLost, match=r"invalid event: .*index"):
        await stream_parts(model)


async def test_an_error_in_the_middle_of_a_stream_is_reported(
    server: ModelServer, model: HttpModel
) -> None:
    """An overloaded provider may fail after the answer has begun."""
    overloaded = 'data: {"type": "error", "error": {"message": "Overloaded"}}\n\n'
    server.script(replace(breaks(ANSWER, after=5, then="end"), alter=_nth(4, overloaded)))

    with pytest.raises(AnswerLost, match="Overloaded"):
        await stream_parts(model)


async def test_events_may_have_any_valid_syntax(server: ModelServer, model: HttpModel) -> None:
    """Comments, CRLF and unknown fields are part of the format."""
    server.script(
        replace(ANSWER, alter=lambda e: ": a comment\nretry: 5\n\n".replace("\n", "\r\n") + e)
    )

    text, calls, _ = read_parts(await stream_parts(model))

    assert text == "Let me look: é\u2028漢"
    assert len(calls) == 2


@pytest.mark.parametrize("size", [1, 3])
async def test_an_answer_may_arrive_in_tiny_chunks(
    server: ModelServer, model: HttpModel, size: int
) -> None:
    """Chunks may end within an event, a line or a character."""
    server.script(replace(ANSWER, bytes_at_once=size))

    text, calls, _ = read_parts(await stream_parts(model))

    assert text == "Let me look: é\u2028漢"
    assert len(calls) == 2


@pytest.mark.parametrize("api", APIS)
async def test_a_silent_stream_times_out(server: ModelServer, api: str) -> None:
    """On a slow machine the timeout may come before the first event."""
    server.script(*[breaks(ANSWER, after=4, then="hang")] * TRIES_MAX)

    async with make_model(api, server, silence_s=SILENCE_S) as model:
        with pytest.raises(ModelUnavailable):
            await stream_parts(model)


async def test_cancelling_a_stream_ends_the_request(server: ModelServer, model: HttpModel) -> None:
    """An interrupted answer must not cost more than what was streamed."""
    server.script(breaks(ANSWER, after=6, then="hang"))
    request = asyncio.create_task(stream_parts(model))
    await asyncio.wait_for(server.silent.wait(), 60)

    request.cancel()

    with pytest.raises(asyncio.CancelledError):
        await request
    await asyncio.wait_for(server.gone.wait(), 60)


async def test_an_endless_answer_is_cut_off(
    server: ModelServer, model: HttpModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endless line must not exhaust the memory."""
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 10_000)
    server.script(replace(ANSWER, alter=lambda event: "x" * 5_000))

    with pytest.raises(AnswerLost, match="more than 10000 bytes"):
        await stream_parts(model)


@pytest.mark.parametrize(
    ("api", "reason", "stop"),
    [
        ("anthropic", "max_tokens", Stop.LENGTH),
        ("anthropic", "refusal", Stop.REFUSED),
        ("anthropic", "some_new_reason", Stop.OTHER),
        ("openai", "length", Stop.LENGTH),
        ("openai", "content_filter", Stop.REFUSED),
    ],
)
async def test_stop_reasons_are_the_same_for_all_apis(
    server: ModelServer, api: str, reason: str, stop: Stop
) -> None:
    """A loop decides by them, independent of the provider."""
    server.script(says(Text("Well"), stop=reason))

    async with make_model(api, server) as model:
        done = (await stream_parts(model))[-1]

    assert isinstance(done, AnswerDone)
    assert done.stop is stop


async def test_invalid_arguments_are_kept_as_text(server: ModelServer, model: HttpModel) -> None:
    """The model sees what it wrote, and can correct it."""
    server.script(
        replace(says(Call("ls", {"path": "src"})), alter=lambda e: e.replace('src\\"}', 'src\\"'))
    )

    _, (call,), answer = read_parts(await stream_parts(model))

    assert call == ToolUse(tool="ls", args='{"path": "src"')
    assert answer.calls[0].malformed
    assert answer.calls[0].args == {"raw": '{"path": "src"'}


async def test_large_integers_are_sent_and_received(server: ModelServer, model: HttpModel) -> None:
    """Documents may contain them."""
    server.script(says(Call("count", {"n": 2**70})))

    _, (call,), _ = read_parts(
        await stream_parts(model, {"messages": [{"role": "user", "n": 2**70, "content": "x"}]})
    )

    assert call.args == {"n": 2**70}
    assert server.requests[0].body["messages"][0]["n"] == 2**70


def _data(event: str) -> str:
    return event.partition("data: ")[2].strip()


def _nth(n: int, other: str) -> Callable[[str], str]:
    """Return a function that replaces the n-th event."""
    seen = iter(range(1_000))
    return lambda event: other if next(seen) == n else event
