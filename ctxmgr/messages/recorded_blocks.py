"""What recorded formats have in common: content as text or blocks, arguments, times. Pure."""

import json
from datetime import UTC, datetime
from typing import Final

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
