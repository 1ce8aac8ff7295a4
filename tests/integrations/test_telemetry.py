"""OpenTelemetry: spans and metrics of a run, collected in memory by the real SDK."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from ctxmgr import connect
from ctxmgr.core.model import Charge, Stop, TextDelta, Usage
from ctxmgr.harness.loop import work
from ctxmgr.harness.loop_events import AnswerRestarted, RunOpened, ToolRan, TurnEnded, TurnStarted
from ctxmgr.integrations.telemetry import Telemetry
from ctxmgr.sandboxes.host import Host
from tests.models.model_server import KEY, ModelServer, says
from tests.models.requests import make_model
from tests.models.wire import USAGE, Call, Text

SECONDS = 120


class Collected:
    """A tracer and a meter provider with what they collected."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def telemetry(self) -> Telemetry:
        return Telemetry(provider="anthropic", tracers=self.tracers, meters=self.meters)

    @property
    def spans(self) -> tuple[Any, ...]:
        """All but that of the run."""
        finished = self._exporter.get_finished_spans()
        return tuple(span for span in finished if span.name != "invoke_agent")

    @property
    def run(self) -> Any:
        (span,) = (s for s in self._exporter.get_finished_spans() if s.name == "invoke_agent")
        return span

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        all_metrics = (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics)
        return [
            point
            for metric in all_metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def collected() -> Iterator[Collected]:
    collected = Collected()
    yield collected
    collected.tracers.shutdown()
    collected.meters.shutdown()


def finished(turn: int = 1, *, read: int = 0, new: int = 10) -> TurnEnded:
    usage = Usage(input_tokens=new, cache_read_tokens=read, cache_written_tokens=5, output_tokens=7)
    return TurnEnded(
        turn=turn,
        text="",
        tools=(),
        stop=Stop.DONE,
        charge=Charge(purpose="turn", model="m", usage=usage),
        sections={},
        levels={},
    )


async def test_a_real_run_follows_the_conventions(collected: Collected) -> None:
    """Two model calls with a tool call between them, and the tokens that the server reported."""
    sandbox = await Host.start()
    try:
        async with ModelServer() as server, connect("sqlite://:memory:", sandbox=sandbox) as client:
            server.script(says(Call("bash", {"command": "echo 6"})), says(Text("It is 6.")))
            session = await client.start("s1", system_prompt="You are careful.")
            with collected.telemetry() as telemetry:
                telemetry.on_event(RunOpened(session="s1", turn=1))
                async with make_model("anthropic", server) as model:
                    await work(session, model=model, user="Look.", on_event=telemetry.on_event)
    finally:
        await sandbox.close()

    names = [span.name for span in collected.spans]
    assert names == ["execute_tool bash", "chat scripted-1", "chat scripted-1"]
    attributes = collected.spans[1].attributes
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == "anthropic"
    assert attributes["gen_ai.conversation.id"] == "s1"
    assert attributes["gen_ai.usage.input_tokens"] == sum(
        USAGE[n] for n in ("input", "cached", "written")
    )
    assert attributes["gen_ai.usage.cache_read.input_tokens"] == USAGE["cached"]
    assert attributes["gen_ai.usage.cache_creation.input_tokens"] == USAGE["written"]
    assert attributes["gen_ai.usage.output_tokens"] == USAGE["output"]
    assert attributes["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert attributes["ctxmgr.section.system_prompt.tokens"] > 0
    tool = collected.spans[0].attributes
    assert tool["gen_ai.conversation.id"] == "s1"
    assert tool["gen_ai.tool.call.id"]
    assert tool["ctxmgr.object.id"] in session.sets.session_index
    run = collected.run
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert run.attributes["gen_ai.conversation.id"] == "s1"
    for span in collected.spans:
        assert span.parent.span_id == run.context.span_id
        assert span.context.trace_id == run.context.trace_id


def test_a_run_belongs_to_the_trace_of_the_program(collected: Collected) -> None:
    """A service that answers a request with a run sees both as one."""
    tracer = collected.tracers.get_tracer("program")
    with tracer.start_as_current_span("request") as outer, collected.telemetry() as telemetry:
        telemetry.on_event(TurnStarted(turn=1))
        telemetry.on_event(finished())

    (chat,) = (span for span in collected.spans if span.name.startswith("chat"))
    assert collected.run.parent.span_id == outer.get_span_context().span_id
    assert chat.context.trace_id == outer.get_span_context().trace_id


def test_tokens_and_durations_are_metrics(collected: Collected) -> None:
    """A dashboard sums them; the session is not an attribute, because there are too many."""
    with collected.telemetry() as telemetry:
        telemetry.on_event(RunOpened(session="s1", turn=1))
        telemetry.on_event(TurnStarted(turn=1))
        telemetry.on_event(finished(read=30))

    tokens = collected.points("gen_ai.client.token.usage")
    assert {p.attributes["gen_ai.token.type"]: p.sum for p in tokens} == {"input": 45, "output": 7}
    prompt = collected.points("ctxmgr.prompt.tokens")
    parts = {point.attributes["ctxmgr.token.part"]: point.value for point in prompt}
    assert parts == {"new": 10, "cache_read": 30, "cache_written": 5}
    (duration,) = collected.points("gen_ai.client.operation.duration")
    assert duration.count == 1
    assert "gen_ai.conversation.id" not in duration.attributes


@pytest.mark.parametrize(("read", "reason"), [(5_000, "prefix"), (0, "beginning")])
def test_a_prefix_break_has_its_reason(collected: Collected, read: int, reason: str) -> None:
    """The reasons are those of `ctxmgr cache --recorded`."""
    with collected.telemetry() as telemetry:
        for turn, cached in enumerate((8_000, 8_015, read), start=1):
            telemetry.on_event(TurnStarted(turn=turn))
            telemetry.on_event(finished(turn, read=cached, new=10_000 if turn == 3 else 10))

    *held, broken = collected.spans
    assert all("ctxmgr.prefix_break.reason" not in span.attributes for span in held)
    assert broken.attributes["ctxmgr.prefix_break.reason"] == reason
    (counted,) = collected.points("ctxmgr.prefix.breaks")
    assert (counted.value, counted.attributes["ctxmgr.prefix_break.reason"]) == (1, reason)


def test_a_turn_that_failed_ends_as_an_error(collected: Collected) -> None:
    """A lost answer is an event of the span; the exception is its error type."""
    with suppress(ConnectionError), collected.telemetry() as telemetry:
        telemetry.on_event(TurnStarted(turn=1))
        telemetry.on_event(TextDelta(text="Let me"))
        telemetry.on_event(AnswerRestarted(reason="it broke off"))
        raise ConnectionError

    (span,) = collected.spans
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "ConnectionError"
    assert collected.run.attributes["error.type"] == "ConnectionError"
    assert collected.run.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["answer_lost"]


def test_a_failed_tool_is_an_error_of_its_span(collected: Collected) -> None:
    """The turn itself succeeded."""
    with collected.telemetry() as telemetry:
        telemetry.on_event(TurnStarted(turn=1))
        telemetry.on_event(ToolRan(tool="bash", ok=False, message="no"))
        telemetry.on_event(finished())

    tool, chat = collected.spans
    assert (tool.name, tool.status.status_code) == ("execute_tool bash", StatusCode.ERROR)
    assert tool.attributes["error.type"] == "tool_error"
    assert collected.run.status.status_code is StatusCode.UNSET
    assert chat.status.status_code is StatusCode.UNSET
    assert tool.start_time <= tool.end_time


@pytest.mark.parametrize("enabled", [True, False])
async def test_run_reports_only_if_it_is_enabled(tmp_path: Path, *, enabled: bool) -> None:
    """It needs the setting, and a configured SDK."""
    program = (
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor\n"
        "provider = TracerProvider()\n"
        "provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))\n"
        "trace.set_tracer_provider(provider)\n"
        "from ctxmgr.surfaces.terminal.cli import main\n"
        "main()\n"
    )
    async with ModelServer() as server:
        server.script(says(Text("Done.")))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, "run", "Say done.", "--sandbox", "host"),
            *("--model", "scripted-1", "--base-url", server.base_url("anthropic")),
            *("--store", f"sqlite:///{tmp_path}/run.db"),
            stdout=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "ANTHROPIC_API_KEY": KEY,
                "CTXMGR_TELEMETRY": str(enabled),
            },
        )
        out, _ = await asyncio.wait_for(process.communicate(), SECONDS)

    assert process.returncode == 0
    assert (b'"chat scripted-1"' in out) is enabled
