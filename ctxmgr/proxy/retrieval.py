"""What a model gets that asks for a shortened text. Pure.

    ctxmgr_show {"handle": "#17"}                     the whole text
    ctxmgr_show {"handle": "#17", "lines": "40-51"}   some of its lines

A handle that does not exist is answered once and for all: models try again otherwise.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.discovery.known_tools import output_kind
from ctxmgr.core.economy.file_lines import first_line

CHARS_MAX: Final = 80_000
"""Characters of one answer: about a tenth of a window. A longer text is given by its lines."""

_LINES: Final = re.compile(r"\s*(\d{1,9})\s*(?:[-–,:]\s*(\d{1,9}))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeText:
    """A text that a handle stands for."""

    tool: str
    args: Mapping[str, Any] = field(repr=False)
    """The long arguments, by their JSON pointers."""
    output: str = field(repr=False)
    first_line: int = 1

    @classmethod
    def of(
        cls, tool: str, args: Mapping[str, Any], output: str, *, long: Mapping[str, str]
    ) -> "WholeText":
        number = first_line(output_kind(tool, args), args, output)
        return cls(tool=tool, args=dict(long), output=output, first_line=number)

    def to_value(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "args": dict(self.args),
            "output": self.output,
            "first_line": self.first_line,
        }


def asked_handle(args: Mapping[str, Any]) -> str:
    """Return the handle that a call of the tool names, perhaps with all that stands beside it."""
    named = args.get("handle", args.get("object_id", ""))  # the MCP server calls it so
    words = str(named).strip(" []").lstrip("#").split()
    return "#" + (words[0] if words else "")


def shown_text(args: Mapping[str, Any], texts: Mapping[str, WholeText]) -> str:
    """Return the answer to a call of the tool."""
    handle = asked_handle(args)
    whole = texts.get(handle)
    if whole is None:
        return (
            f"There is no shortened text {handle:.40}, and there will be none. Do not ask for it"
            " again; run the tool that produced it, or read the file."
        )
    pieces = [f"[{handle} {whole.tool}]"]
    pieces += [f"argument {pointer[1:]}:\n{text}" for pointer, text in whole.args.items()]
    lines = _LINES.fullmatch(str(args.get("lines") or ""))
    pieces.append(_lines(whole, lines) if lines else whole.output)
    answer = "\n".join(piece for piece in pieces if piece)
    if len(answer) <= CHARS_MAX:
        return answer
    number = whole.output.count("\n") + 1
    last = whole.first_line + number - 1
    return (
        f"{answer[:CHARS_MAX]}\n[{handle} has lines {whole.first_line} to {last}; ask for the"
        ' rest by their numbers, as in "lines": "40-80"]'
    )


def _lines(whole: WholeText, asked: re.Match[str]) -> str:
    first = int(asked[1])
    last = int(asked[2] or asked[1])
    lines = whole.output.split("\n")
    start = max(0, first - whole.first_line)
    found = lines[start : max(start, last - whole.first_line + 1)]
    if not found:
        end = whole.first_line + len(lines) - 1
        return f"It has no such lines; it has {whole.first_line} to {end}."
    return "\n".join(found)
