"""Tool results and errors as texts for an agent: limited in size, secrets masked. No I/O.

A result is one line of JSON, followed by each long text unchanged: escaped inside JSON it would
cost more tokens and be harder to read. These texts are sent to the agent's model provider.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.core.secrets.masking import Masker
from ctxmgr.errors import CtxmgrError
from ctxmgr.surfaces.encoding import BELOW, plain
from ctxmgr.surfaces.error_answers import answer

TEXT_CHARS_MAX: Final = 100_000
"""Of one text in a result: about the limit of an agent's client."""

_NEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "denied": "name an object that the session has seen; recall finds it",
        "error": "this is a bug in ctxmgr; see its log on standard error",
        "incorrect": "correct the arguments; the tool's schema describes them",
    }
)
"""Remedies that differ from the command line's."""


def result_texts(result: Any, masker: Masker) -> list[str]:
    """Return a tool's result as texts."""
    if isinstance(result, str):
        return [_cut(masker.shown(result))]
    value = masked(result, masker)
    below = {}
    if isinstance(value, dict):
        below = {name: value.pop(name) for name in sorted(BELOW) if _is_text(value.get(name))}
    return [_cut(json_line(value)), *(_cut(f"{name}:\n{text}") for name, text in below.items())]


def masked(result: Any, masker: Masker) -> Any:
    """Convert a result to plain JSON types, with secrets masked."""
    return _masked(plain(result), masker)


def json_line(value: Any) -> str:
    """Encode as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def error_body(error: Exception) -> dict[str, str]:
    """Describe an error: its code, what happened, and what to do."""
    ours = isinstance(error, CtxmgrError)
    code = error.code if isinstance(error, CtxmgrError) else "error"
    message = str(error) if ours else f"{type(error).__name__} inside ctxmgr"
    return {"code": code, "message": message, "next": _NEXT.get(code, answer(error).next)}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _masked(value: Any, masker: Masker) -> Any:
    if isinstance(value, str):
        return masker.shown(value)
    if isinstance(value, dict):
        return {name: _masked(item, masker) for name, item in value.items()}
    return [_masked(item, masker) for item in value] if isinstance(value, list) else value


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:TEXT_CHARS_MAX]}\n[cut here: {len(text)} characters; the resource has them all]"
