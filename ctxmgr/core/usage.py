"""Tokens of a model call as providers report them and turns store them, in one sense. Pure.

ours        as ``to_value`` writes it: the four counts of ``Usage``
Anthropic   input_tokens leave out what the cache gave or took
OpenAI      prompt_tokens (or input_tokens, with details) count the cached ones in
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from ctxmgr.core.model import Usage

_OURS: Final = frozenset(each.name for each in fields(Usage))


def to_value(usage: Usage) -> dict[str, int]:
    """Return usage as a turn stores it."""
    return asdict(usage)


def read_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    """Read usage as it was stored with a turn, whoever reported it; None: it says nothing."""
    if not usage:
        return None
    if "cache_read_tokens" in usage:
        return Usage(**{name: _number(usage, name) for name in _OURS})
    if "input_tokens" in usage and "input_tokens_details" not in usage:
        return anthropic_usage(usage)
    return openai_usage(usage)


def anthropic_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    if not usage:
        return None
    return Usage(
        input_tokens=_number(usage, "input_tokens"),
        cache_read_tokens=_number(usage, "cache_read_input_tokens"),
        cache_written_tokens=_number(usage, "cache_creation_input_tokens"),
        output_tokens=_number(usage, "output_tokens"),
    )


def openai_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    if not usage:
        return None
    prompt = _number(usage, "prompt_tokens") or _number(usage, "input_tokens")
    told = (usage.get(name) for name in ("prompt_tokens_details", "input_tokens_details"))
    details = next((each for each in told if isinstance(each, Mapping)), usage)
    cached = _number(details, "cached_tokens") or _number(details, "cached_input_tokens")
    written = _number(usage, "cache_creation_input_tokens")
    written = written or _number(usage, "cache_write_input_tokens")
    return Usage(
        input_tokens=max(0, prompt - cached - written),
        cache_read_tokens=cached,
        cache_written_tokens=written,
        output_tokens=_number(usage, "completion_tokens") or _number(usage, "output_tokens"),
    )


def _number(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0
