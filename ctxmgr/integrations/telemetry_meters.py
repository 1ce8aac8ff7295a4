"""The metrics of a run, as OpenTelemetry's conventions for generative AI name them. Tells others.

gen_ai.client.token.usage          input (all that was sent) and output
gen_ai.client.operation.duration   from the prompt to the last word, in seconds
ctxmgr.prompt.tokens               the prompt's tokens: new, read from the cache, written to it
ctxmgr.prefix.breaks               how often the cached prefix broke, by reason
"""

from collections.abc import Mapping
from typing import Final

from ctxmgr.core.model import Usage
from ctxmgr.errors import ExtraMissing

try:
    from opentelemetry import metrics
except ImportError as error:
    raise ExtraMissing("opentelemetry-api", extra="opentelemetry") from error

NAME: Final = "ctxmgr"
TOKEN_STEPS: Final = [4**n for n in range(14)]
SECOND_STEPS: Final = [0.01 * 2**n for n in range(14)]
"""Of the histograms, as the conventions advise."""


class Meters:
    """The instruments; None: of the provider that the process has, if it has one."""

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

    def lasted(self, seconds: float, about: Mapping[str, str]) -> None:
        self._seconds.record(seconds, about)

    def spent(self, usage: Usage, about: Mapping[str, str]) -> None:
        self._tokens.record(usage.prompt_tokens, {**about, "gen_ai.token.type": "input"})
        self._tokens.record(usage.output_tokens, {**about, "gen_ai.token.type": "output"})
        parts = {
            "new": usage.input_tokens,
            "cache_read": usage.cache_read_tokens,
            "cache_written": usage.cache_written_tokens,
        }
        for part, count in parts.items():
            self._prompt.add(count, {**about, "ctxmgr.token.part": part})

    def broke(self, reason: str, about: Mapping[str, str]) -> None:
        self._breaks.add(1, {**about, "ctxmgr.prefix_break.reason": reason})
