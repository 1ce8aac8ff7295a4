"""What a transcript says of a stored turn and of its tool calls. Pure.

Thinking, system prompts and everything about the context window is left out (002-R035, R036).
Secrets are masked before anything is shortened, so that half a secret is never left (002-A34).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ctxmgr.core.store.contract import Instant
from ctxmgr.knowledge.transcripts.transcript import (
    SUMMARY_CHARS_MAX,
    AttachmentLine,
    Block,
    KnowledgeLine,
    Role,
    ToolLine,
    TranscriptTurn,
    one_line,
)

Mask: TypeAlias = Callable[[str], str]
"""Returns a text without its secrets."""

READ_CHARS_MAX: Final = 4_096
"""Characters of an argument or an output, without its secrets, that are read for its summary."""

VALUE_CHARS_MAX: Final = 60
ARGUMENTS_MAX: Final = 4

NOTE_TOOLS: Final[Mapping[str, str]] = {
    "write": "updated",
    "edit": "updated",
    "note": "appended",
}
"""The tools that change notes (002-R201), and what a transcript calls it."""

MEDIA: Final = frozenset({"image", "audio", "video", "document", "file"})
"""Types of a provider's blocks that hold binary content."""


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """What is kept of a tool call until its turn is finished."""

    line: ToolLine
    change: KnowledgeLine | None = None
    """The note that it changed."""


def captured_call(
    tool: str, args: object, *, status: str, output: str | None, mask: Mask
) -> CapturedCall:
    """Return what a transcript says of a tool call."""
    summary = _arguments(args, mask)
    shown = mask(output or "")[:READ_CHARS_MAX]
    first = next((line for line in shown.split("\n") if line.strip()), "")
    result = f"{status}: {first}" if first else status
    line = ToolLine.of(tool, summary, result)
    change = None
    path = args.get("path") if isinstance(args, Mapping) else None
    if status == "ok" and tool in NOTE_TOOLS and isinstance(path, str) and _is_note(path):
        change = KnowledgeLine.of(NOTE_TOOLS[tool], mask(path), summary)
    return CapturedCall(line, change)


def captured_turns(
    turn: Mapping[str, Any], at: Instant, *, calls: Mapping[str, CapturedCall], mask: Mask
) -> Iterator[TranscriptTurn]:
    """Yield the turns of a transcript that a stored turn becomes; ``calls`` has its tool calls."""
    user = turn.get("user")
    if isinstance(user, str) and user.strip():
        yield TranscriptTurn.of(at, Role.USER, [mask(user)])
    parts = [part for part in turn.get("assistant") or () if isinstance(part, Mapping)]
    blocks = list(_answer(parts, calls, mask))
    mentioned = {part.get("toolcall_id") for part in parts}
    ran = [str(call) for call in turn.get("toolcall_ids") or ()]
    blocks += [calls[call].line for call in ran if call in calls and call not in mentioned]
    answer = TranscriptTurn.of(at, Role.AGENT, blocks)
    if answer.blocks:
        yield answer
    changes = [change for call in ran if call in calls and (change := calls[call].change)]
    if changes:
        yield TranscriptTurn.of(at, Role.AGENT, changes, suffix="memory")


def _answer(
    parts: list[Mapping[str, Any]], calls: Mapping[str, CapturedCall], mask: Mask
) -> Iterator[Block]:
    for number, part in enumerate(parts, start=1):
        match part.get("type"):
            case "text":
                yield mask(str(part.get("text") or ""))
            case "toolcall" if part.get("toolcall_id") in calls:
                yield calls[part["toolcall_id"]].line
            case "toolcall":
                yield ToolLine.of(
                    str(part.get("tool")), _arguments(part.get("args"), mask), "not run"
                )
            case "contextcall":
                call = captured_call(
                    str(part.get("tool")),
                    part.get("args"),
                    status=str(part.get("status")),
                    output=str(part.get("output") or ""),
                    mask=mask,
                )
                yield call.line
            case "native" if isinstance(part.get("block"), Mapping):
                kind = part["block"].get("type")
                if kind in MEDIA:
                    yield AttachmentLine.of(f"{kind}-{number}")


def _arguments(args: object, mask: Mask) -> str:
    """Return the arguments of a call in one line; what is nested is only counted."""
    if not isinstance(args, Mapping):
        return mask(str(args))[:READ_CHARS_MAX] if args else ""
    shown = [f"{name!s:.40}={_value(value, mask)}" for name, value in list(args.items())]
    more = f" and {len(shown) - ARGUMENTS_MAX} more" if len(shown) > ARGUMENTS_MAX else ""
    return one_line(", ".join(shown[:ARGUMENTS_MAX]) + more, chars_max=SUMMARY_CHARS_MAX)


def _value(value: object, mask: Mask) -> str:
    match value:
        case str():
            return one_line(mask(value)[:READ_CHARS_MAX], chars_max=VALUE_CHARS_MAX)
        case Mapping():
            return f"{{{len(value)} fields}}"
        case list() | tuple():
            return f"[{len(value)} items]"
        case _:
            return str(value)[:VALUE_CHARS_MAX]


def _is_note(path: str) -> bool:
    parts = path.split("/")
    return path.endswith(".md") and bool({"knowledge", "topics"} & set(parts[:-1]))
