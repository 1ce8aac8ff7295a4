"""What a model saw of a tool's result, from what a client hands to its hooks. Pure.

Clients hand over an object of their own per tool. Of it, the text is taken: the output of a
command, the content of a file, the hunks of an edit, the paths of a search. Pictures become a line
that names their type, size and hash.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_TEXT_FIELDS: Final = ("content", "result", "output", "text", "message")
"""Where results of other tools hold their text, in the order of preference."""

_EXIT_CODE = re.compile(
    r"^(?:Process exited with code|Exit code:?|exit code:?) (-?\d+)$", re.MULTILINE
)
_EXIT_CODE_CHARACTERS: Final = 400
"""Codex writes the exit code in the first lines of an output."""

_GEMINI_SHELL: Final = "run_shell_command"
_GEMINI_EXIT_CODE = re.compile(
    r"^Exit Code: -?[1-9]\d*(?:\nProcess Group PGID: \d+)?(?:\n</untrusted_context>)?\s*\Z",
    re.MULTILINE,
)
"""Gemini CLI writes it in the last lines, and only if it is not 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """A result as it is stored."""

    text: str
    failed: bool = False


def read_output(
    response: object, *, tool: str, persisted: Callable[[str], str | None]
) -> ToolOutput:
    """Return the text of a result. ``persisted`` reads a file that the client moved it to."""
    if isinstance(response, str):
        code = _EXIT_CODE.search(response[:_EXIT_CODE_CHARACTERS])
        return ToolOutput(text=response, failed=code is not None and code[1] != "0")
    if not isinstance(response, Mapping):
        return ToolOutput(text=_text(response))
    if "llmContent" in response:  # Gemini CLI
        text = _text(response["llmContent"])
        exited = tool == _GEMINI_SHELL and _GEMINI_EXIT_CODE.search(text) is not None
        return ToolOutput(text=text, failed=exited or bool(response.get("error")))
    if "stdout" in response:
        return _command_output(response, persisted)
    return ToolOutput(text=_object_text(response), failed=response.get("isError") is True)


def _command_output(
    response: Mapping[str, Any], persisted: Callable[[str], str | None]
) -> ToolOutput:
    stdout, path = response.get("stdout"), response.get("persistedOutputPath")
    if response.get("isImage") is True and isinstance(stdout, str):
        return ToolOutput(text=_picture(stdout.partition("base64,")[2] or stdout, kind="image"))
    whole = persisted(path) if isinstance(path, str) else None
    parts = (stdout if whole is None else whole, response.get("stderr"))
    text = "\n".join(part for part in parts if isinstance(part, str) and part)
    return ToolOutput(text=text, failed=response.get("interrupted") is True)


def _object_text(response: Mapping[str, Any]) -> str:
    """Return the text of an object that a tool of Claude Code or an MCP server answers with."""
    file, path = response.get("file"), response.get("filePath")
    if isinstance(file, Mapping):
        return _file_text(file)
    if isinstance(path, str) and isinstance(response.get("structuredPatch"), list):
        hunks = [_hunk(hunk) for hunk in response["structuredPatch"] if isinstance(hunk, Mapping)]
        return "\n".join([f"{path} was {'changed' if hunks else 'written'}", *hunks])
    names = response.get("filenames")
    if isinstance(names, list) and not response.get("content"):
        return "\n".join(str(name) for name in names)
    for name in _TEXT_FIELDS:
        if isinstance(response.get(name), str | list) and response[name]:
            return _text(response[name])
    return _text(response)


def _file_text(file: Mapping[str, Any]) -> str:
    data = file.get("base64")
    if isinstance(data, str):
        return _picture(data, kind=str(file.get("type") or "file"))
    content = file.get("content")
    return content if isinstance(content, str) else _text(file)


def _hunk(hunk: Mapping[str, Any]) -> str:
    place = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
    lines = hunk.get("lines")
    text = [str(line) for line in lines] if isinstance(lines, list) else []
    return "\n".join([f"@@ -{place[0]},{place[1]} +{place[2]},{place[3]} @@", *text])


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and value and all(map(_is_block, value)):
        return "\n".join(map(_block, value))
    if isinstance(value, Mapping) and _is_block(value):
        return _block(value)
    return json.dumps(value, ensure_ascii=False)


def _is_block(value: object) -> bool:
    """Return whether this is a part of a message: text, a picture, or data with a type."""
    return isinstance(value, str) or (
        isinstance(value, Mapping)
        and (isinstance(value.get("text"), str) or "inlineData" in value or "type" in value)
    )


def _block(block: str | Mapping[str, Any]) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block.get("text"), str):
        return str(block["text"])
    for name in ("source", "inlineData", "file"):
        if isinstance(block.get(name), Mapping):
            block = {**block, **block[name]}
    kind = block.get("media_type") or block.get("mimeType") or block.get("type")
    for name in ("data", "base64"):
        if isinstance(block.get(name), str):
            return _picture(block[name], kind=str(kind))
    return json.dumps(block, ensure_ascii=False)


def _picture(data: str, *, kind: str) -> str:
    """Return the line that stands for binary data."""
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        content = data.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"[{kind[:80]}: {len(content)} bytes, sha256 {digest}]"
