"""A request of any of the three APIs, taken apart for the record. Pure.

    frame      everything but the messages: model, system prompt, tools, settings
    messages   one JSON text each, in their order; without the bytes of pictures

A request repeats the messages of the one before, which are not read again. Two messages are the
same if they differ only in what clients vary themselves: cache marks, and a single text as a string
or as a list of one block.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

import orjson

from ctxmgr.proxy.engine import Api
from ctxmgr.proxy.wire.json_spans import (
    ByteSpan,
    elements,
    fields,
    first_element,
    moved,
    shared_elements,
)

PICTURE_LENGTH_MIN: Final = 2_048
"""Characters from which encoded data in a request is replaced by its length and hash."""

Value: TypeAlias = Any
_LISTS: Final = {
    Api.ANTHROPIC_MESSAGES: "messages",
    Api.OPENAI_CHAT: "messages",
    Api.OPENAI_RESPONSES: "input",
}
_SYSTEM: Final = frozenset({"system", "developer"})
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_PICTURES: Final = frozenset({"image", "image_url", "input_image", "document", "input_file"})


@dataclass(frozen=True, slots=True)
class CallOutput:
    """The result of a tool call, as a request brings it."""

    text: str = field(repr=False)
    failed: bool = False


@dataclass(frozen=True, slots=True)
class RequestBytes:
    """A request as it was written, for comparing the next one with it."""

    body: bytes = field(repr=False)
    spans: tuple[ByteSpan, ...] = field(repr=False)
    """Of the messages."""
    frame: bytes = field(repr=False)
    """Everything but the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParts:
    """A request."""

    frame: str = field(repr=False)
    messages: tuple[str, ...] = field(repr=False)
    keys: tuple[bytes, ...] = field(repr=False)
    """Of each message: equal for messages that are the same."""
    values: tuple[Value, ...] = field(repr=False)
    """The messages from ``known`` on."""
    known: int = 0
    """How many messages were read with an earlier request."""
    system: str = field(repr=False)
    model: str | None
    has_tools: bool
    source: RequestBytes | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        return 2 * len(self.source.body) if self.source is not None else 0

    def common(self, keys: tuple[bytes, ...]) -> int:
        """Return how many messages at the beginning are the same as those of another request."""
        count = 0
        for mine, other in zip(self.keys, keys, strict=False):
            if mine != other:
                break
            count += 1
        return count

    def keys_until_last_answer(self) -> tuple[bytes, ...]:
        """Return the keys of the messages up to the last one of the model."""
        ours = [number for number, value in enumerate(self.values) if _is_answer(value)]
        return self.keys[: self.known + ours[-1] + 1] if ours else self.keys[: self.known]

    def user_text(self, start: int) -> str:
        """Return what the user's messages from an index on say, without results of tools."""
        texts = (_user_text(value) for value in self._values(start))
        return "\n\n".join(text for text in texts if text)

    def outputs(self, start: int) -> dict[str, CallOutput]:
        """Return the results of tool calls in the messages from an index on, by call."""
        found: dict[str, CallOutput] = {}
        for value in self._values(start):
            found |= _outputs(value)
        return found

    def _values(self, start: int) -> tuple[Value, ...]:
        return self.values[max(0, start - self.known) :]


def read_request(
    api: Api, body: bytes, *, before: RequestParts | None = None
) -> RequestParts | None:
    """Return the parts of a request; None if it is not one of this API.

    What it has in common with the request ``before`` is not read again.
    """
    try:
        return _read_parts(api, body, before)
    except ValueError:
        return _read_whole(api, body)


def _read_parts(api: Api, body: bytes, before: RequestParts | None) -> RequestParts:
    """Read a request with a list of messages; ``ValueError`` if it has none."""
    source = None if before is None else before.source
    same, spans, name = 0, list[ByteSpan](), _LISTS[api]

    def skip(found: str, at: int) -> int | None:
        nonlocal same
        if found != name or body[at : at + 1] != b"[":
            return None
        if source is not None:
            first = first_element(body, at)
            same = shared_elements(source.body, source.spans, body, first)
            spans.extend(moved(source.spans[:same], first))
        spans[:], end = elements(body, at, known=spans)
        return end

    listed = fields(body, skip=skip).get(name)
    if listed is None or not spans:
        raise ValueError(f"it has no list of {name}")
    new = [orjson.loads(body[start:end]) for start, end in spans[same:]]
    if not all(isinstance(message, dict) for message in new):
        raise ValueError("a message is not an object")
    written = RequestBytes(body, tuple(spans), body[: listed.start] + b"[]" + body[listed.end :])
    if before is not None and source is not None and same and source.frame == written.frame:
        return replace(
            before,
            messages=(*before.messages[:same], *_texts(new)),
            keys=(*before.keys[:same], *map(_key, new)),
            values=tuple(new),
            known=same,
            source=written,
        )
    if same:
        return _read_parts(api, body, None)
    frame = orjson.loads(written.frame)
    del frame[name]
    return replace(_parts(frame, new), source=written)


def _read_whole(api: Api, body: bytes) -> RequestParts | None:
    try:
        value = orjson.loads(body)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    given = value.pop(_LISTS[api], None)
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return None
    return _parts(value, messages)


def _parts(frame: dict[str, Value], messages: list[Value]) -> RequestParts:
    model = frame.get("model")
    return RequestParts(
        frame=_dumped(_without_pictures(frame)),
        messages=tuple(_texts(messages)),
        keys=tuple(map(_key, messages)),
        values=tuple(messages),
        system=_system(frame, messages),
        model=model if isinstance(model, str) else None,
        has_tools=bool(frame.get("tools")) or _has_tool_items(messages),
    )


def _texts(messages: Iterable[Value]) -> Iterator[str]:
    return (_dumped(_without_pictures(message)) for message in messages)


def _has_tool_items(messages: list[Value]) -> bool:
    """Return whether items of the input define tools, as newer models of Codex have them."""
    return any(message.get("type") == "additional_tools" for message in messages[:4])


def content_texts(content: Value) -> str:
    """Return the text of a message's content; a picture is named by its kind."""
    if isinstance(content, str):
        return content
    texts = []
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in _TEXTS and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif kind in _PICTURES:
            texts.append(f"[{kind}]")
    return "\n".join(texts)


def _is_answer(message: Value) -> bool:
    kinds = {"function_call", "custom_tool_call", "reasoning"}
    return message.get("role") == "assistant" or message.get("type") in kinds


def _user_text(message: Value) -> str:
    if message.get("role") != "user":
        return ""
    content = message.get("content")
    if isinstance(content, list):
        blocks = [each for each in content if isinstance(each, dict)]
        content = [block for block in blocks if block.get("type") != "tool_result"]
    return content_texts(content)


def _outputs(message: Value) -> dict[str, CallOutput]:
    if message.get("type") in {"function_call_output", "custom_tool_call_output"}:
        return {str(message.get("call_id")): CallOutput(_output_text(message.get("output")))}
    if message.get("role") == "tool":
        text = content_texts(message.get("content"))
        return {str(message.get("tool_call_id")): CallOutput(text)}
    content = message.get("content")
    blocks = content if isinstance(content, list) and message.get("role") == "user" else ()
    return {
        str(block.get("tool_use_id")): CallOutput(
            content_texts(block.get("content")), bool(block.get("is_error"))
        )
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "tool_result"
    }


def _output_text(output: Value) -> str:
    if isinstance(output, str | list):
        return content_texts(output)
    return json.dumps(output, ensure_ascii=False)


def _system(value: Value, messages: list[Value]) -> str:
    own = value.get("system") or value.get("instructions")
    if own:
        return content_texts(own)
    texts = []
    for message in messages:
        if message.get("role") not in _SYSTEM:
            break
        texts.append(content_texts(message.get("content")))
    return "\n\n".join(filter(None, texts))


def _key(message: Value) -> bytes:
    return sha256(orjson.dumps(_without_marks(message), option=orjson.OPT_SORT_KEYS)).digest()


def _without_marks(message: Value) -> Value:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks = [_unmarked(block) for block in content]
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}:
        return {**message, "content": blocks[0]["text"]}
    return {**message, "content": blocks}


def _unmarked(block: Value) -> Value:
    if not isinstance(block, dict) or "cache_control" not in block:
        return block
    return {name: value for name, value in block.items() if name != "cache_control"}


def _without_pictures(value: Value) -> Value:
    """Replace encoded data by its length and hash; everything else stays."""
    match value:
        case dict():
            return {name: _picture(name, part) for name, part in value.items()}
        case list():
            return [_without_pictures(part) for part in value]
        case _:
            return value


def _picture(name: str, value: Value) -> Value:
    if not isinstance(value, str):
        return _without_pictures(value)
    encoded = name == "data" or value.startswith("data:")
    if not encoded or len(value) < PICTURE_LENGTH_MIN:
        return value
    return f"[{len(value)} characters, sha256 {sha256(value.encode()).hexdigest()}]"


def _dumped(value: Value) -> str:
    return orjson.dumps(value).decode()
