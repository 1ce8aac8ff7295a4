"""Reports a run to OpenTelemetry as spans and metrics. Exports through the configured SDK.

Spans of one run are one trace:

    invoke_agent          from entering to leaving ``Telemetry``; in the trace of the program, if
                          it has one
    ├─ chat MODEL         from TurnStarted to the end of the answer; tokens are set at TurnEnded
    └─ execute_tool TOOL  from the event before ToolRan to ToolRan

Metrics, at TurnEnded:

    gen_ai.client.token.usage          input (all tokens that were sent) and output
    gen_ai.client.operation.duration   from the prompt to the end of the answer, in seconds
    ctxmgr.prompt.tokens               tokens of the prompt: new, read from the cache, written to it
    ctxmgr.prefix.breaks               breaks of the cached prefix, by reason

Names follow the semantic conventions for generative AI, where input tokens include cached ones;
names that the conventions do not define begin with ``ctxmgr.``. The reason of a prefix break is
derived from the reported usage, as in ``core.history.cache_breaks``.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self

from ctxmgr import ExtraMissing, TextDelta, ToolUse, Usage
from ctxmgr.core.history.cache_breaks import ReportedCall, recorded_costs
from ctxmgr.harness.loop_events import (
    AnswerRestarted,
    LoopEvent,
    RunOpened,
    ToolRan,
    TurnEnded,
    TurnStarted,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context as OuterContext

try:
    from opentelemetry import metrics, trace
except ImportError as error:
    raise ExtraMissing(extra="opentelemetry") from error

NAME: Final = "ctxmgr"
TOOL_ERROR: Final = "tool_error"
"""The ``error.type`` of a tool call that failed; what went wrong is text for the model."""
TOKEN_STEPS: Final = [4**n for n in range(14)]
SECOND_STEPS: Final = [0.01 * 2**n for n in range(14)]
"""Bucket boundaries of the histograms, as the conventions advise."""


class Telemetry:
    """Reports one run; use it with ``with``. Without a configured SDK it does nothing."""

    def __init__(
        self,
        *,
        provider: str,
        tracers: trace.TracerProvider | None = None,
        meters: metrics.MeterProvider | None = None,
    ) -> None:
        self._attributes = {"gen_ai.provider.name": provider, "gen_ai.operation.name": "chat"}
        self._tracer = trace.get_tracer(NAME, tracer_provider=tracers)
        self._meters = Meters(meters)
        self._run: trace.Span | None = None
        self._context: OuterContext | None = None
        """Of the run's span; None: that of the program."""
        self._span: trace.Span | None = None
        self._started = self._answered = self._last_event = 0
        self._previous_call: ReportedCall | None = None

    @staticmethod
    def is_configured() -> bool:
        """Whether the program has configured an SDK; otherwise nothing is sent anywhere."""
        return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)

    def __enter__(self) -> Self:
        attributes = {**self._attributes, "gen_ai.operation.name": "invoke_agent"}
        attributes["gen_ai.agent.name"] = NAME
        self._run = self._tracer.start_span("invoke_agent", attributes=attributes)
        self._context = trace.set_span_in_context(self._run)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._abort(kind.__qualname__ if kind else "unfinished")
        run, self._run, self._context = self._run, None, None
        if run is None:
            return
        if kind is not None:
            run.set_attribute("error.type", kind.__qualname__)
            run.set_status(trace.StatusCode.ERROR)
        run.end()

    def on_event(self, event: LoopEvent) -> None:
        """Handle one event of the loop."""
        now = time.time_ns()
        match event:
            case RunOpened(session=session):
                self._attributes["gen_ai.conversation.id"] = session
                if self._run is not None:
                    self._run.set_attribute("gen_ai.conversation.id", session)
            case TurnStarted():
                self._abort("unfinished")
                self._started = self._answered = now
                client = trace.SpanKind.CLIENT
                self._span = self._tracer.start_span(
                    "chat", self._context, kind=client, attributes=self._attributes
                )
            case TextDelta() | ToolUse():
                self._answered = now
            case AnswerRestarted(reason=reason) if self._span is not None:
                self._span.add_event("answer_lost", {"reason": reason})
            case ToolRan():
                self._report_tool(event, now)
            case TurnEnded():
                self._end_turn(event)
        self._last_event = now

    def _report_tool(self, ran: ToolRan, now: int) -> None:
        attributes = {
            **self._attributes,
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": ran.tool,
        }
        if ran.call_id:
            attributes["gen_ai.tool.call.id"] = ran.call_id
        if ran.toolcall_id:
            attributes["ctxmgr.object.id"] = ran.toolcall_id
        span = self._tracer.start_span(
            f"execute_tool {ran.tool}",
            self._context,
            attributes=attributes,
            start_time=self._last_event,
        )
        if not ran.ok:
            span.set_attribute("error.type", TOOL_ERROR)
            span.set_status(trace.StatusCode.ERROR)
        span.end(now)

    def _end_turn(self, turn: TurnEnded) -> None:
        span, self._span, model = self._span, None, turn.charge.model
        assert span is not None
        span.update_name(f"chat {model}")
        span.set_attributes({"gen_ai.request.model": model, "ctxmgr.turn": turn.turn})
        reason = turn.stop_reason or str(turn.stop)
        span.set_attribute("gen_ai.response.finish_reasons", [reason])
        for name, count in turn.sections.items():
            span.set_attribute(f"ctxmgr.section.{name}.tokens", count)
        attributes = {**self._attributes, "gen_ai.request.model": model}
        attributes.pop("gen_ai.conversation.id", None)  # a time series per session is too many
        self._meters.record_duration((self._answered - self._started) / 1e9, attributes)
        if turn.charge.usage is not None:
            self._report_usage(span, turn, turn.charge.usage, attributes)
        span.end(self._answered)

    def _report_usage(
        self, span: trace.Span, turn: TurnEnded, usage: Usage, attributes: dict[str, str]
    ) -> None:
        tokens = {
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_written_tokens,
        }
        span.set_attributes(tokens)
        self._meters.record_usage(usage, attributes)
        sent_ms = self._started // 1_000_000
        call = ReportedCall(n=turn.turn, usage=usage, model=turn.charge.model, timestamp=sent_ms)
        previous, self._previous_call = self._previous_call, call
        reason = recorded_costs([previous, call])[-1].why if previous else None
        if reason is not None:
            span.set_attribute("ctxmgr.prefix_break.reason", reason)
            self._meters.count_break(reason, attributes)

    def _abort(self, reason: str) -> None:
        """End the span of a turn that did not finish."""
        if self._span is not None:
            self._span.set_attribute("error.type", reason)
            self._span.set_status(trace.StatusCode.ERROR)
            self._span.end()
            self._span = None


class Meters:
    """The metrics of a run; ``provider`` None uses the global one."""

    def __init__(self, provider: metrics.MeterProvider | None) -> None:
        meter = metrics.get_meter(NAME, meter_provider=provider)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=TOKEN_STEPS
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            explicit_bucket_boundaries_advisory=SECOND_STEPS,
        )
        self._prompt = meter.create_counter("ctxmgr.prompt.tokens", "{token}")
        self._breaks = meter.create_counter("ctxmgr.prefix.breaks", "{break}")

    def record_duration(self, seconds: float, attributes: Mapping[str, str]) -> None:
        self._seconds.record(seconds, attributes)

    def record_usage(self, usage: Usage, attributes: Mapping[str, str]) -> None:
        self._tokens.record(usage.prompt_tokens, {**attributes, "gen_ai.token.type": "input"})
        self._tokens.record(usage.output_tokens, {**attributes, "gen_ai.token.type": "output"})
        parts = {
            "new": usage.input_tokens,
            "cache_read": usage.cache_read_tokens,
            "cache_written": usage.cache_written_tokens,
        }
        for part, count in parts.items():
            self._prompt.add(count, {**attributes, "ctxmgr.token.part": part})

    def count_break(self, reason: str, attributes: Mapping[str, str]) -> None:
        self._breaks.add(1, {**attributes, "ctxmgr.prefix_break.reason": reason})
