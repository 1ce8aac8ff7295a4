"""Writes and removes what clients are told, file by file. Owns ``setup/CLIENT.json`` of the state.

What was added is remembered, so that it can be removed after a person has edited the file, and
nothing else. Each file is replaced as a whole; all are read and checked before the first is
written.
"""

import json
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ctxmgr.core.private_files import make_private_folder
from ctxmgr.errors import Incorrect, NotFound, Unavailable
from ctxmgr.integrations.setup.clients import ClientFile, JsonFile, OwnFile, SettingsEdit

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a client's file: Claude Code keeps its own state beside the servers."""


Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange:
    """A file as it is, and as it will be."""

    path: Path
    before: str | None
    """None: there is no such file."""
    after: str | None
    """None: the file goes."""
    notes: tuple[str, ...] = ()
    added: Mapping[str, Any] | None = None
    """What is remembered for the removal."""

    @property
    def is_change(self) -> bool:
        return self.before != self.after


def plan_setup(files: Iterable[ClientFile], receipt: Path) -> list[SettingsChange]:
    """Return what a setup would change; ``Incorrect`` names a damaged file."""
    known = _load_receipt(receipt)
    changes = []
    for file in files:
        path = _real(Path(file.path))
        before, past = _read(path), known.get(str(path), {})
        ours, _ = _past(past)
        try:
            edit = file.add(before or "", ours=ours, hooks=_past_hooks(past))
        except Incorrect as error:
            raise Incorrect(f"{path}: {error}") from error
        is_new = before is None or isinstance(file, OwnFile)
        added = _added(file, edit, past) | {"new": past.get("new", is_new)}
        changes.append(
            SettingsChange(path=path, before=before, after=edit.text, notes=edit.notes, added=added)
        )
    return changes


def plan_removal(files: Iterable[ClientFile], receipt: Path) -> list[SettingsChange]:
    """Return what a removal would change; ``NotFound`` if nothing was set up."""
    known = _load_receipt(receipt)
    files = list(files)
    if not any(str(_real(Path(file.path))) in known for file in files):
        raise NotFound(f"{receipt.stem} was not set up on this machine")
    changes = []
    for file in files:
        path = _real(Path(file.path))
        before, past = _read(path), known.get(str(path))
        if past is None:
            continue
        if before is None:  # somebody has deleted it: there is nothing to remember any more
            changes.append(SettingsChange(path=path, before=None, after=None))
            continue
        ours, created = _past(past)
        try:
            after: str | None = _as_added(file, past).remove(before, ours=ours, created=created)
        except Incorrect as error:
            raise Incorrect(f"{path}: {error}") from error
        if past.get("new") is True and (after or "").strip() in {"", "{}"}:
            after = None
        changes.append(SettingsChange(path=path, before=before, after=after))
    return changes


def apply_setup(changes: Iterable[SettingsChange], receipt: Path) -> None:
    """Write the files, and remember what was added before that."""
    changes = list(changes)
    _require_unchanged(changes)
    entries = {str(change.path): change.added for change in changes}
    _save_receipt(receipt, _load_receipt(receipt) | entries)
    for change in changes:
        if change.is_change and change.after is not None:
            _require_unchanged([change])
            _write(change.path, change.after, mode=0o600)


def apply_removal(changes: Iterable[SettingsChange], receipt: Path) -> None:
    """Write the files, and forget what was added."""
    for change in changes:
        _require_unchanged([change])
        if change.after is None:
            change.path.unlink(missing_ok=True)
        elif change.is_change:
            _write(change.path, change.after, mode=0o600)
        known = _load_receipt(receipt)
        known.pop(str(change.path), None)
        _save_receipt(receipt, known)


def _require_unchanged(changes: Iterable[SettingsChange]) -> None:
    """Raise ``Unavailable`` if a client, or a person, has written a file since it was read."""
    for change in changes:
        if _read(change.path) != change.before:
            raise Unavailable(f"{change.path} has just been changed: run this again")


def _added(file: ClientFile, edit: SettingsEdit, past: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is remembered of a file: what an earlier setup added, and this one."""
    ours, created = _past(past)
    values: dict[Keys, Any] = dict(_past_texts(past))
    if isinstance(file, JsonFile):
        values.update(file.values)
    return {
        "created": [list(each) for each in dict.fromkeys((*created, *edit.created))],
        "values": [list(each) for each in sorted({*ours, *edit.values})],
        "texts": [[list(path), text] for path, text in values.items() if isinstance(text, str)],
        "hooks": {name: file.hooks[name] for name in edit.hooks if isinstance(file, JsonFile)},
    }


def _as_added(file: ClientFile, past: Mapping[str, Any]) -> ClientFile:
    """Return the file with what was added, whatever this version would add."""
    if not isinstance(file, JsonFile):
        return file
    return JsonFile(path=file.path, hooks=_past_hooks(past), values=_past_texts(past))


def _past_hooks(past: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    hooks = past.get("hooks")
    return hooks if isinstance(hooks, dict) else {}


def _past_texts(past: Mapping[str, Any]) -> dict[Keys, str]:
    """Return the values that were added and are text, by path."""
    return {tuple(path): text for path, text in past.get("texts", ())}


def _past(past: Mapping[str, Any]) -> tuple[frozenset[Keys], tuple[Keys, ...]]:
    """Return the values that were added, and what was created around them."""
    values = frozenset(tuple(each) for each in past.get("values", ()))
    return values, tuple(tuple(each) for each in past.get("created", ()))


def _load_receipt(path: Path) -> dict[str, dict[str, Any]]:
    text = _read(path)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Incorrect(f"{path} is damaged: {error}") from error
    if not isinstance(value, dict) or not all(map(_is_entry, value.values())):
        raise Incorrect(f"{path} is damaged: remove it, and run this again")
    return value


def _is_entry(entry: Any) -> bool:
    """Return whether this is what ``_added`` returns for a file."""
    if not isinstance(entry, dict):
        return False
    lists = [entry.get(name, []) for name in ("created", "values", "texts")]
    if not all(isinstance(each, list) for each in lists):
        return False
    created, values, texts = lists
    return all(map(_is_keys, created + values)) and all(
        isinstance(each, list) and list(map(_is_keys, each)) == [True, False] for each in texts
    )


def _is_keys(path: Any) -> bool:
    return isinstance(path, list) and all(isinstance(part, str) for part in path)


def _save_receipt(path: Path, entries: Mapping[str, Any]) -> None:
    if entries:
        _write(path, json.dumps(entries, indent=2) + "\n", mode=0o600)
    else:
        path.unlink(missing_ok=True)


def _real(path: Path) -> Path:
    """Return the file that a link leads to: settings often live in a repository."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a loop, which is no OSError before Python 3.13
        raise Unavailable(f"{path} cannot be read: {error}") from error


def _read(path: Path) -> str | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
            raise Incorrect(f"{path} is not a regular file")
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise Incorrect(f"{path} has more than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Incorrect(f"{path} is not UTF-8") from error


def _write(path: Path, text: str, *, mode: int) -> None:
    """Replace a file; its permissions stay, and a new one is private."""
    try:
        make_private_folder(path.parent)
        if path.exists():
            mode = path.stat().st_mode & 0o777
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
