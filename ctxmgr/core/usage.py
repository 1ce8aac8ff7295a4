"""Tokens of a model call as providers report them, in one sense. Pure.

ours        input, cache_read, cache_write, output
Anthropic   input_tokens leave out what the cache gave or took
OpenAI      prompt_tokens (or input_tokens, with details) count the cached ones in
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one call took and gave."""

    input: int
    """Neither read from the cache nor written to it."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, cached or not."""
        return self.input + self.cache_read + self.cache_write

    def to_value(self) -> dict[str, int]:
        return {
            "input": self.input,
            "cache_read": self.cache_read,
            "cache_write": self.cache_write,
            "output": self.output,
        }

    @classmethod
    def from_value(cls, usage: Mapping[str, Any] | None) -> Self | None:
        """Read usage as it was stored with a turn, whoever reported it; None: it says nothing."""
        if not usage:
            return None
        if "cache_read" in usage:
            return cls(**{name: _number(usage, name) for name in cls.__dataclass_fields__})
        if "input_tokens" in usage and "input_tokens_details" not in usage:
            return cls.from_anthropic(usage)
        return cls.from_openai(usage)

    @classmethod
    def from_anthropic(cls, usage: Mapping[str, Any] | None) -> Self | None:
        if not usage:
            return None
        return cls(
            input=_number(usage, "input_tokens"),
            cache_read=_number(usage, "cache_read_input_tokens"),
            cache_write=_number(usage, "cache_creation_input_tokens"),
            output=_number(usage, "output_tokens"),
        )

    @classmethod
    def from_openai(cls, usage: Mapping[str, Any] | None) -> Self | None:
        if not usage:
            return None
        prompt = _number(usage, "prompt_tokens") or _number(usage, "input_tokens")
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or usage
        cached = _number(details, "cached_tokens") or _number(details, "cached_input_tokens")
        written = _number(usage, "cache_creation_input_tokens")
        written = written or _number(usage, "cache_write_input_tokens")
        return cls(
            input=max(0, prompt - cached - written),
            cache_read=cached,
            cache_write=written,
            output=_number(usage, "completion_tokens") or _number(usage, "output_tokens"),
        )


def _number(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0
