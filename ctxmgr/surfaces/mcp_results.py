"""What an agent is told: results and faults as texts, bounded, secrets masked. Touches nothing.

A result is one line of JSON, and after it each long text as it is: escaped inside JSON it would
cost more tokens and be read less well. What the agent is told goes to its model's provider.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.core.secrets import Masker
from ctxmgr.errors import CtxmgrError
from ctxmgr.surfaces.exits import answer
from ctxmgr.surfaces.tables import BELOW, plain

TEXT_CHARS_MAX: Final = 100_000
"""Of one text in a result: about what an agent's client lets pass."""

_NEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "denied": "name something that the session has met; recall finds it",
        "error": "this is a fault in ctxmgr: its log on standard error says more",
        "incorrect": "correct the arguments; the tool's schema says what it takes",
    }
)
"""What to do where the command line's words do not fit."""


def texts(result: Any, masker: Masker) -> list[str]:
    """Return what a tool's result says."""
    if isinstance(result, str):
        return [_cut(masker.shown(result))]
    value = masked(result, masker)
    below = {}
    if isinstance(value, dict):
        below = {name: value.pop(name) for name in sorted(BELOW) if _is_text(value.get(name))}
    return [_cut(json_line(value)), *(_cut(f"{name}:\n{text}") for name, text in below.items())]


def masked(result: Any, masker: Masker) -> Any:
    """Return a result as JSON knows it, with the secrets in its texts masked."""
    return _masked(plain(result), masker)


def json_line(value: Any) -> str:
    """Encode in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fault(error: Exception) -> dict[str, str]:
    """Say what went wrong: its code, what happened, and what to do."""
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
        return {name: _masked(each, masker) for name, each in value.items()}
    return [_masked(each, masker) for each in value] if isinstance(value, list) else value


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:TEXT_CHARS_MAX]}\n[cut here: {len(text)} characters; the resource has them all]"
