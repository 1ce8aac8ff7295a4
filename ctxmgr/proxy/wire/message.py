"""One message of a request, whichever API it is for. Pure.

A message is read once into what shaping needs: its prose, its tool calls and its results, with the
paths of the strings that may be replaced. A path leads to a string; ``inner`` leads on inside that
string, which is JSON itself, as the arguments of a call are in OpenAI's APIs.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from ctxmgr.core.objects.hashes import sha256
from ctxmgr.proxy.wire.json_spans import Edit, Located, Path, edited, encoded, located

REMINDER: Final = "<system-reminder>"
_REMINDER_END: Final = "</system-reminder>"


class Side(StrEnum):
    """Who wrote a message."""

    ASSISTANT = "assistant"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class StringPlace:
    """Where a string is in a message."""

    path: Path
    inner: Path | None = None
    """The path inside the string at ``path``, which is JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCall:
    """A tool call of the assistant."""

    call_id: str
    tool: str
    args: Mapping[str, Any] = field(repr=False)
    at: StringPlace
    """Where the arguments are."""
    is_text: bool = False
    """Whether the arguments are one text, and not JSON."""

    def place(self, pointer: str) -> StringPlace:
        """Return where a string of the arguments is, by its JSON pointer."""
        if self.is_text:
            return self.at
        keys = _followed(self.args, pointer)
        if self.at.inner is None:
            return StringPlace((*self.at.path, *keys))
        return StringPlace(self.at.path, keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireResult:
    """The result of a tool call."""

    call_id: str
    text: str = field(repr=False)
    """Without what the client has added at its end."""
    tail: str = field(default="", repr=False)
    failed: bool = False
    at: StringPlace | None
    """None: it is not one text, and is never changed."""
    failed_at: Path | None = None
    """Where it says that it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireMessage:
    """What shaping needs of a message."""

    side: Side
    prose: tuple[str, ...] = field(default=(), repr=False)
    calls: tuple[WireCall, ...] = ()
    results: tuple[WireResult, ...] = ()
    has_thinking: bool = False
    marks: int = 0
    """Cache marks in it."""
    ttl: str | None = None
    """The lifetime that one of its marks asks for."""
    markable: Path | None = None
    """The last block that can carry a cache mark."""
    blocks: int = 1
    """Of its content: a provider looks for a cached prefix some blocks before a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNames:
    """How a client names what a request belongs to; empty if it does not."""

    session: str = ""
    agent: str = ""
    shared: str = ""
    """A name that several conversations may have, such as a key of the provider's cache."""


class Wire(Protocol):
    """What differs between APIs."""

    @property
    def listed(self) -> str:
        """The field with the messages."""
        ...

    @property
    def show_tool(self) -> bytes:
        """The definition of the tool that returns whole texts."""
        ...

    def read(self, value: Any) -> WireMessage:
        """Read a message; ``Incorrect`` if it has not the form of one."""
        ...

    def names(self, headers: Mapping[str, str], field_of: Callable[[str], Any]) -> SessionNames:
        """Return what the client says of its session."""
        ...

    def tool_names(self, tools: Any) -> list[str]:
        """Return the names of the tools of a request."""
        ...


def digest_of(value: Any) -> str:
    """Return the hash by which messages are compared: without marks and forms that clients vary."""
    text = json.dumps(_normal(value), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode())


def chained(before: str, digest: str) -> str:
    """Return the hash of a history that one message continues."""
    return sha256(f"{before}{digest}".encode())


def changed(raw: bytes, changes: Mapping[StringPlace, str | bool]) -> list[Edit]:
    """Return the edits of a message that put other values at some places."""
    tree = located(raw)
    edits: list[Edit] = []
    nested: dict[Path, dict[Path, str]] = {}
    for place, new in changes.items():
        if place.inner is not None:
            nested.setdefault(place.path, {})[place.inner] = str(new)
        elif isinstance(new, bool):
            edits.append(Edit(tree.at(place.path).span, b"true" if new else b"false"))
        else:
            edits.append(Edit(tree.at(place.path).span, encoded(new)))
    for path, inner in nested.items():
        edits.append(_inside(raw, tree.at(path), inner))
    return edits


def without_tail(text: str) -> tuple[str, str]:
    """Divide a result from the reminders that a client has added at its end."""
    end = len(text.rstrip())
    while text.endswith(_REMINDER_END, 0, end):
        start = text.rfind(REMINDER, 0, end)
        if start < 0:
            break
        end = len(text[:start].rstrip())
    return (text, "") if end == len(text.rstrip()) else (text[:end], text[end:])


def written_call(call_id: str, tool: str, text: str, *, path: Path) -> WireCall:
    """Return a call whose arguments are written in a string: as JSON, or as one text."""
    try:
        args = json.loads(text)
    except ValueError:
        args = None
    if isinstance(args, dict):
        return WireCall(call_id=call_id, tool=tool, args=args, at=StringPlace(path, ()))
    return WireCall(
        call_id=call_id, tool=tool, args={"raw": text}, at=StringPlace(path), is_text=True
    )


def text_of(content: Any, types: tuple[str, ...]) -> tuple[list[str], Path | None]:
    """Return the texts of a content, and the path of the only one, if it is the only block."""
    if isinstance(content, str):
        return [content], ()
    if not isinstance(content, list):
        return [], None
    texts = [
        (index, block["text"])
        for index, block in enumerate(content)
        if isinstance(block, dict)
        and block.get("type") in types
        and isinstance(block.get("text"), str)
    ]
    only = (texts[0][0], "text") if len(texts) == 1 else None
    return [text for _, text in texts], only


def _followed(args: Mapping[str, Any], pointer: str) -> Path:
    """Return a JSON pointer as a path: indexes of lists are numbers."""
    keys: list[str | int] = []
    value: Any = args
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        key: str | int = int(name) if isinstance(value, list) else name
        value = value[key]
        keys.append(key)
    return tuple(keys)


def _inside(raw: bytes, outer: Located, texts: Mapping[Path, str]) -> Edit:
    inner = json.loads(raw[outer.span.start : outer.span.end]).encode()
    tree = located(inner)
    edits = [Edit(tree.at(path).span, encoded(text)) for path, text in texts.items()]
    return Edit(outer.span, encoded(edited(inner, edits).decode()))


def _normal(value: Any) -> Any:
    """Return a message without marks, with a single text block as a string."""
    match value:
        case {"content": list(blocks), **rest}:
            kept = [_normal(_unmarked(block)) for block in blocks]
            match kept:
                case [{"type": "text", "text": str(text), **more}] if not more:
                    return {"content": text, **rest}
            return {"content": kept, **rest}
        case _:
            return value


def _unmarked(block: Any) -> Any:
    if not isinstance(block, dict) or "cache_control" not in block:
        return block
    return {name: value for name, value in block.items() if name != "cache_control"}
