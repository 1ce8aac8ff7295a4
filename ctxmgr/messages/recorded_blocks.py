"""What recorded formats have in common: content as text or blocks, times, usage. Pure."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ctxmgr.messages.recorded import Usage

IMAGE: Final = "[image]"
"""Stands where a picture was."""

_TEXTS: Final = frozenset({"text", "input_text", "output_text", None})
_IMAGES: Final = frozenset({"image", "image_url", "input_image"})


def content_text(content: object) -> str:
    """Return a message's content as text: it is text, or blocks, or nothing."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "\n".join(filter(None, map(block_text, content)))
        case dict():
            return block_text(content)
        case _:
            raise ValueError(f"content is text or a list of blocks, not {content!r:.80}")


def block_text(block: object) -> str:
    """Return the text of a block; of a block that says nothing, the empty text."""
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        raise ValueError(f"a block is a map, not {block!r:.80}")  # noqa: TRY004 (a value in a file)
    kind = block.get("type")
    if kind in _IMAGES:
        return IMAGE
    return str(block.get("text") or "") if kind in _TEXTS else ""


def parsed_args(arguments: object) -> object:
    """Read arguments that may be written as JSON text; what is none stays as the model wrote it."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def milliseconds(value: object) -> int | None:
    """Read a time as it is recorded: ISO 8601, or UTC milliseconds; None: not told."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1_000)
    return int(value) if isinstance(value, int | float) else None


def anthropic_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    """Read usage whose ``input_tokens`` leave out what the cache gave or took."""
    if not usage:
        return None
    return Usage(
        input=_number(usage, "input_tokens"),
        cache_read=_number(usage, "cache_read_input_tokens"),
        cache_write=_number(usage, "cache_creation_input_tokens"),
        output=_number(usage, "output_tokens"),
    )


def openai_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    """Read usage whose prompt tokens count the cached ones in."""
    if not usage:
        return None
    prompt = _number(usage, "prompt_tokens") or _number(usage, "input_tokens")
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or usage
    cached = _number(details, "cached_tokens") or _number(details, "cached_input_tokens")
    written = _number(usage, "cache_creation_input_tokens")
    return Usage(
        input=max(0, prompt - cached - written),
        cache_read=cached,
        cache_write=written,
        output=_number(usage, "completion_tokens") or _number(usage, "output_tokens"),
    )


def _number(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0
