"""A run as OpenTelemetry's spans and metrics, by its conventions for generative AI. Tells others.

    Began … the last word   a span ``chat MODEL``; its tokens are known when the turn is Finished
    … Ran                   a span ``execute_tool TOOL``, from whatever came before it
    Finished                tokens and duration as metrics, and whether the cached prefix broke

Input tokens are all that were sent; those read from the cache and written to it are among them, as
the conventions want it. What they have no name for is called ``ctxmgr.…``. Why a prefix broke is
told by the usage, as ``core.cache_usage`` tells it.
"""

import time
from typing import Self

from ctxmgr.core.cache_usage import ReportedCall, recorded_costs
from ctxmgr.core.model import Called, Said, Usage
from ctxmgr.errors import ExtraMissing
from ctxmgr.harness.happenings import Began, Finished, Happening, Lost, Opened, Ran
from ctxmgr.integrations.telemetry_meters import NAME, Meters

try:
    from opentelemetry import metrics, trace
except ImportError as error:
    raise ExtraMissing("opentelemetry-api", extra="opentelemetry") from error


class Telemetry:
    """Hears a run, inside ``with``. Without an SDK that somebody configured it does nothing."""

    def __init__(
        self,
        *,
        provider: str,
        tracers: trace.TracerProvider | None = None,
        meters: metrics.MeterProvider | None = None,
    ) -> None:
        self._about = {"gen_ai.provider.name": provider, "gen_ai.operation.name": "chat"}
        self._tracer = trace.get_tracer(NAME, tracer_provider=tracers)
        self._meters = Meters(meters)
        self._span: trace.Span | None = None
        self._began = self._answered = self._last = 0
        self._before: ReportedCall | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._fail(kind.__qualname__ if kind else "unfinished")

    def hear(self, happening: Happening) -> None:
        """Take what the loop tells."""
        now = time.time_ns()
        match happening:
            case Opened(session=session):
                self._about["gen_ai.conversation.id"] = session
            case Began():
                self._fail("unfinished")
                self._began = self._answered = now
                client = trace.SpanKind.CLIENT
                self._span = self._tracer.start_span("chat", kind=client, attributes=self._about)
            case Said() | Called():
                self._answered = now
            case Lost(reason=reason) if self._span is not None:
                self._span.add_event("answer_lost", {"reason": reason})
            case Ran(tool=tool, ok=ok):
                self._ran(tool, ok=ok, now=now)
            case Finished():
                self._finished(happening)
        self._last = now

    def _ran(self, tool: str, *, ok: bool, now: int) -> None:
        about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        name = f"execute_tool {tool}"
        span = self._tracer.start_span(name, attributes=about, start_time=self._last)
        span.set_status(trace.StatusCode.UNSET if ok else trace.StatusCode.ERROR)
        span.end(now)

    def _finished(self, turn: Finished) -> None:
        span, self._span, model = self._span, None, turn.charge.model
        assert span is not None
        span.update_name(f"chat {model}")
        span.set_attributes({"gen_ai.request.model": model, "ctxmgr.turn": turn.turn})
        span.set_attribute("gen_ai.response.finish_reasons", [str(turn.stop)])
        for name, count in turn.sections.items():
            span.set_attribute(f"ctxmgr.section.{name}.tokens", count)
        about = {**self._about, "gen_ai.request.model": model}
        about.pop("gen_ai.conversation.id", None)  # one series for each session would be too many
        self._meters.lasted((self._answered - self._began) / 1e9, about)
        if turn.charge.usage is not None:
            self._spent(span, turn, turn.charge.usage, about)
        span.end(self._answered)

    def _spent(self, span: trace.Span, turn: Finished, usage: Usage, about: dict[str, str]) -> None:
        spent = {
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_written_tokens,
        }
        span.set_attributes(spent)
        self._meters.spent(usage, about)
        sent = self._began // 1_000_000
        call = ReportedCall(n=turn.turn, usage=usage, model=turn.charge.model, timestamp=sent)
        why = recorded_costs([self._before, call])[-1].why if self._before else None
        self._before = call
        if why is not None:
            span.set_attribute("ctxmgr.prefix_break.reason", why)
            self._meters.broke(why, about)

    def _fail(self, reason: str) -> None:
        """End a turn that was not finished."""
        if self._span is not None:
            self._span.set_attribute("error.type", reason)
            self._span.set_status(trace.StatusCode.ERROR)
            self._span.end()
            self._span = None
