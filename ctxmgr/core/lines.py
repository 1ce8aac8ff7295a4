"""Every line of the plain form, byte for byte. Pure.

    id={id} type=file path={display_path} file_type={file_type} char_count={char_count}
    id={id} type=file path={display_path} file_type={file_type} [unread] | [deleted] | [binary]
    id={id} type=toolcall tool={tool} status={status}
    user: {text}
    assistant: {text}
    toolcall_ref id={id} tool={tool} status={status}
    ACTIVE_CONTENT id={id}
    {content}

Every piece ends its last line: a newline is added unless the text ends with one. Ids, names and
paths are data: a character in them that could begin a line is shown as ``\\xNN``. Content and what
was said are text, and stand as they are.
"""

import re
from typing import Final, Protocol

from ctxmgr.core.contents import FileState, ToolCall
from ctxmgr.core.parts import CallRef, Shown, ShownCall, ShownText

MARKERS: Final = {
    FileState.STUB: "[unread]",
    FileState.DELETED: "[deleted]",
    FileState.NONTEXT: "[binary]",
}
"""What stands in the place of ``char_count``, and of the content."""

# Besides the control characters, the two others at which Python and JavaScript end a line.
_FORGING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPED = re.compile(r"\\x([01][0-9a-f]|7f|[89][0-9a-f])|\\u(202[89])")
_LONGEST_BYTE: Final = 0xFF


class ShownFile(Protocol):
    """What is shown of a version of a file."""

    @property
    def object_id(self) -> str: ...
    @property
    def file_type(self) -> str: ...
    @property
    def char_count(self) -> int: ...
    @property
    def content(self) -> str | None: ...


def file_line(file: ShownFile, *, display_path: str, state: FileState) -> str:
    """Return a file's line in the pool. Only its history tells deleted from binary: ``state``."""
    told = MARKERS.get(state) or f"char_count={file.char_count}"
    path, file_type = escaped(display_path), escaped(file.file_type)
    return f"id={file.object_id} type=file path={path} file_type={file_type} {told}\n"


def toolcall_line(toolcall: ToolCall | CallRef) -> str:
    """Return a tool call's line in the pool."""
    object_id, tool = escaped(toolcall.object_id), escaped(toolcall.tool)
    return f"id={object_id} type=toolcall tool={tool} status={toolcall.status}\n"


def line_id(line: str) -> str:
    """Return the id that a line of the pool begins with.

    Only what was shown is known: an id that itself spells ``\\xNN`` out, or holds ``type=`` after a
    space, is read as another.
    """
    return _ESCAPED.sub(_unescape, line.removeprefix("id=").partition(" type=")[0])


def reference(call: CallRef) -> str:
    """Return what the conversation shows of a tool call, without the newline."""
    object_id, tool = escaped(call.object_id), escaped(call.tool)
    return f"toolcall_ref id={object_id} tool={tool} status={call.status}"


def active_heading(object_id: str) -> str:
    return f"ACTIVE_CONTENT id={escaped(object_id)}\n"


def file_content(file: ShownFile, *, state: FileState) -> str:
    """Return what stands below an active file's heading."""
    return MARKERS.get(state) or file.content or ""


def user_message(text: str) -> str:
    """Return what was new before an answer; nothing new is no message."""
    return ended(f"user: {text}") if text else ""


def answer(parts: tuple[Shown, ...]) -> str:
    """Return an answer with its tool calls, in the order they happened."""
    return "".join(map(_part, parts))


def ended(text: str) -> str:
    """End the last line. No text stays none."""
    return text if not text or text.endswith("\n") else text + "\n"


def escaped(name: str) -> str:
    """Show what could begin a line as what it is."""
    return name if name.isprintable() else _FORGING.sub(_escape, name)


def _part(part: Shown) -> str:
    match part:
        case ShownText(text=text) if text:
            return ended(f"assistant: {text}")
        case ShownCall(ref=ref):
            return reference(ref) + "\n"
        case _:
            return ""


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= _LONGEST_BYTE else f"\\u{code:04x}"


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1] or found[2], 16))
