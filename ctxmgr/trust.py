"""What a person has confirmed on this machine. Owns files in the state directory.

    trusted/SHA256(path).json             a folder's ctxmgr.toml, with the hash of its content
    runs/SHA256(store, session).json      how a session runs: sandbox, workspace, network, address
    folders/SHA256(store, session).json   the folder that a session works in

A store, a bundle or a cloned folder can name a sandbox, a workspace or an address, but what it
names is used only if a person gave it as a flag, now or in an earlier command on this machine. That
is remembered here and nowhere else: not in the store, which others may write to.
"""

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from ctxmgr.core.private_files import make_private_folder
from ctxmgr.errors import Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoices:
    """What decides where the commands of a session run, and where a model's key is sent."""

    workspace: str
    sandbox: str | None
    network: bool
    base_url: str | None

    @classmethod
    def load(cls, state: Path, *, store: str, session: str) -> Self | None:
        """Return what this machine ran the session with; None if it never did."""
        stored = _read(_session_file(state, "runs", store, session))
        if stored is None or stored.keys() != {field.name for field in fields(cls)}:
            return None  # written by another version: ask again
        return cls(**stored)

    def save(self, state: Path, *, store: str, session: str) -> None:
        """Remember the choices for the next run of the session."""
        _write(_session_file(state, "runs", store, session), asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFolder:
    """The folder of this machine that a session works in, whatever its store says."""

    store: str
    session: str
    folder: str
    """The path on this machine, without symbolic links."""
    agent_prefix: str
    """The path at which the agent sees it."""

    @classmethod
    def load(cls, state: Path, *, store: str, session: str) -> Self | None:
        """Return the folder of a session; None if the session never worked on this machine."""
        found = cls._of(_read(_session_file(state, "folders", store, session)))
        return found if found is not None and found.session == session else None

    @classmethod
    def below(cls, state: Path, folder: Path, *, store: str) -> "list[Self]":
        """Return what is known of the sessions that work in a folder or below it, by session."""
        entries = (cls._of(_read(file)) for file in sorted((state / "folders").glob("*.json")))
        inside = [
            entry
            for entry in entries
            if entry is not None
            and entry.store == store
            and Path(entry.folder).is_relative_to(folder)
        ]
        return sorted(inside, key=lambda entry: entry.session)

    def save(self, state: Path) -> None:
        """Remember the folder, unless it is known already."""
        if self != self.load(state, store=self.store, session=self.session):
            _write(_session_file(state, "folders", self.store, self.session), asdict(self))

    @classmethod
    def _of(cls, stored: dict[str, Any] | None) -> Self | None:
        names = {field.name for field in fields(cls)}
        if stored is None or stored.keys() != names:
            return None
        return cls(**stored) if all(isinstance(stored[name], str) for name in names) else None


def is_trusted(state: Path, file: Path, content: bytes) -> bool:
    """Return whether a person has confirmed this very content of the file."""
    stored = _read(_trust_file(state, file))
    return stored is not None and stored.get("sha256") == hashlib.sha256(content).hexdigest()


def trust(state: Path, file: Path, content: bytes) -> None:
    """Remember that a person has confirmed this content of the file."""
    entry = {"file": str(file), "sha256": hashlib.sha256(content).hexdigest()}
    _write(_trust_file(state, file), entry)


def _trust_file(state: Path, file: Path) -> Path:
    return state / "trusted" / f"{hashlib.sha256(os.fsencode(file)).hexdigest()}.json"


def _session_file(state: Path, kind: str, store: str, session: str) -> Path:
    key = json.dumps([store, session]).encode()
    return state / kind / f"{hashlib.sha256(key).hexdigest()}.json"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):  # cut off by a crash: nothing was confirmed
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    return stored if isinstance(stored, dict) else None


def _write(path: Path, entry: dict[str, Any]) -> None:
    try:
        make_private_folder(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entry, file)
        Path(temporary).replace(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
