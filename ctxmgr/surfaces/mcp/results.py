"""Tool results and errors as texts for an agent: limited in size, secrets masked. Reads the store.

A result is one line of JSON, followed by each long text unchanged: escaped inside JSON it would
cost more tokens and be harder to read. These texts are sent to the agent's model provider.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.core.files.mounts import FileLocation, Mounts
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import CtxmgrError
from ctxmgr.surfaces.encoding import BELOW, plain
from ctxmgr.surfaces.error_answers import remedy
from ctxmgr.surfaces.views.last_turn import last_record, mounts_of

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


def result_texts(value: Any) -> list[str]:
    """Return a tool's result, of plain JSON types, as texts."""
    if isinstance(value, str):
        return [_cut(value)]
    below = {}
    if isinstance(value, dict):
        below = {name: value[name] for name in sorted(BELOW) if _is_text(value.get(name))}
        value = {name: item for name, item in value.items() if name not in below}
    return [_cut(json_line(value)), *(_cut(f"{name}:\n{text}") for name, text in below.items())]


def masked(result: Any, masker: Masker) -> Any:
    """Convert a result to plain JSON types, with secrets masked."""
    return _masked(plain(result), masker)


def without_hashes(value: Any) -> Any:
    """Return an object without the hashes of its version, which say nothing to a model."""
    if not isinstance(value, dict) or not isinstance(value.get("fields"), dict):
        return value
    fields = {name: item for name, item in value["fields"].items() if not name.endswith("_hash")}
    return {**value, "fields": fields}


async def as_agent_sees(store: Store, value: Any, session_id: str | None) -> Any:
    """Replace paths of the host in a result by those that the session's agent uses.

    Without a session the result is returned unchanged.
    """
    if session_id is None or not _has_source(value):
        return value
    mounts = mounts_of(await last_record(store, session_id))
    return _with_agent_paths(value, mounts)


def json_line(value: Any) -> str:
    """Encode as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def error_body(error: Exception) -> dict[str, str]:
    """Describe an error: its code, what happened, and what to do."""
    ours = isinstance(error, CtxmgrError)
    code = error.code if isinstance(error, CtxmgrError) else "error"
    message = str(error) if ours else f"{type(error).__name__} inside ctxmgr"
    return {"code": code, "message": message, "next": remedy(error, _NEXT)}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _masked(value: Any, masker: Masker) -> Any:
    if isinstance(value, str):
        return masker.shown(value)
    if isinstance(value, dict):
        return {name: _masked(item, masker) for name, item in value.items()}
    return [_masked(item, masker) for item in value] if isinstance(value, list) else value


def _has_source(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(_HOST_FIELDS & value.keys()) or any(map(_has_source, value.values()))
    return isinstance(value, list) and any(map(_has_source, value))


def _with_agent_paths(value: Any, mounts: Mounts) -> Any:
    if isinstance(value, list):
        return [_with_agent_paths(item, mounts) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("filesystemId"), str) and isinstance(value.get("path"), str):
        location = FileLocation(
            filesystem_id=value["filesystemId"], path=value["path"], on_host=True
        )
        value = {**value, "path": mounts.reverse(location)}
    return {
        name: _with_agent_paths(item, mounts)
        for name, item in value.items()
        if name not in _HOST_FIELDS
    }


_HOST_FIELDS: Final = frozenset({"filesystemId", "canonicalPrefix"})
"""Fields of sources and mounts that describe the host."""


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:TEXT_CHARS_MAX]}\n[cut here: {len(text)} characters; the resource has them all]"
