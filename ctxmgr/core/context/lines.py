r"""Every line of the plain form, byte for byte. Pure.

    id={id} type=file path={display_path} file_type={file_type} char_count={char_count}
    id={id} type=file path={display_path} file_type={file_type} [unread] | [deleted] | [binary]
    id={id} type=toolcall tool={tool} status={status}
    user: {text}
    assistant: {text}
    toolcall_ref id={id} tool={tool} status={status}
    toolcall_ref id={id} tool={tool} status=fail reason={reason}
    ACTIVE_CONTENT id={id}
    {content}

Every piece ends with a newline, which is added if it is missing. In ids, names and paths,
characters that could begin a line are escaped as ``\xNN``. Content and messages are not escaped.

A call that has no object has no content either: a context tool, or a call that was not run. If it
failed, its reference ends with the reason, or the agent would never learn it. Answers that were
stored before reasons were shown stay as they are: a past prompt must be rebuilt byte for byte.
"""

import re
from typing import Final, Protocol

from ctxmgr.core.objects.answers import AnswerCall, AnswerPart, AnswerText, CallRef
from ctxmgr.core.objects.file import FileState
from ctxmgr.core.objects.toolcall import ToolCall

MARKERS: Final = {
    FileState.STUB: "[unread]",
    FileState.DELETED: "[deleted]",
    FileState.NONTEXT: "[binary]",
}
"""Shown instead of ``char_count`` and of the content."""

REASON_CHARS_MAX: Final = 300
"""Characters of a reason: an error with a long path. It may repeat an argument of any length."""

# Control characters, and the two other characters at which Python and JavaScript end a line.
_FORGING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPED = re.compile(r"\\x([01][0-9a-f]|7f|[89][0-9a-f])|\\u(202[89])")
_LONGEST_BYTE: Final = 0xFF


class ShownFile(Protocol):
    """The fields of a file's version that are shown."""

    @property
    def object_id(self) -> str: ...
    @property
    def file_type(self) -> str: ...
    @property
    def char_count(self) -> int: ...
    @property
    def content(self) -> str | None: ...


def file_line(file: ShownFile, *, display_path: str, state: FileState) -> str:
    """Return a file's line in the pool. ``state`` is needed to tell deleted from binary."""
    size = MARKERS.get(state) or f"char_count={file.char_count}"
    path, file_type = escaped(display_path), escaped(file.file_type)
    return f"id={file.object_id} type=file path={path} file_type={file_type} {size}\n"


def toolcall_line(toolcall: ToolCall | CallRef) -> str:
    """Return a tool call's line in the pool."""
    object_id, tool = escaped(toolcall.object_id), escaped(toolcall.tool)
    return f"id={object_id} type=toolcall tool={tool} status={toolcall.status}\n"


def line_id(line: str) -> str:
    """Return the id that a line of the pool begins with.

    Escapes are undone. An id that contains ``\\xNN`` literally, or `` type=``, is not recovered.
    """
    return _ESCAPED.sub(
        lambda match: chr(int(match[1] or match[2], 16)),
        line.removeprefix("id=").partition(" type=")[0],
    )


def reference(call: CallRef) -> str:
    """Return the reference to a tool call in the chat, without the newline."""
    object_id, tool = escaped(call.object_id), escaped(call.tool)
    return f"toolcall_ref id={object_id} tool={tool} status={call.status}"


def call_line(call: AnswerCall) -> str:
    """Return the reference to a call; if it failed and has no object, with the reason."""
    if not call.explained or call.output is None or call.ref.status == "ok":
        return f"{reference(call.ref)}\n"
    reason = escaped(call.output)
    if len(reason) > REASON_CHARS_MAX:
        reason = f"{reason[: REASON_CHARS_MAX - 1]}…"
    return f"{reference(call.ref)} reason={reason}\n"


def active_heading(object_id: str) -> str:
    return f"ACTIVE_CONTENT id={escaped(object_id)}\n"


def file_content(file: ShownFile, *, state: FileState) -> str:
    """Return the text below an active file's heading."""
    return MARKERS.get(state) or file.content or ""


def user_message(text: str) -> str:
    """Return the line of a user message; empty if the text is empty."""
    return ended(f"user: {text}") if text else ""


def answer(parts: tuple[AnswerPart, ...]) -> str:
    """Return an answer with its tool calls, in the order they happened."""
    return "".join(map(_part, parts))


def ended(text: str) -> str:
    """Return the text with a newline at its end; an empty text stays empty."""
    return text if not text or text.endswith("\n") else text + "\n"


def escaped(name: str) -> str:
    """Escape the characters that could begin a line."""
    return name if name.isprintable() else _FORGING.sub(_escape, name)


def _part(part: AnswerPart) -> str:
    match part:
        case AnswerText(text=text) if text:
            return ended(f"assistant: {text}")
        case AnswerCall():
            return call_line(part)
        case _:
            return ""


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code <= _LONGEST_BYTE else f"\\u{code:04x}"
