"""What a person has confirmed on this machine. Owns files in the state directory.

    trusted/SHA256(path).json         a folder's ctxmgr.toml, with the hash of its content
    runs/SHA256(store, session).json  where the commands of a session run, and what they may reach

A store, a bundle or a cloned folder can name a sandbox, a workspace or an address, but what it
names is used only if a person gave it as a flag, now or in an earlier command on this machine. That
is remembered here and nowhere else: not in the store, which others may write to.
"""

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

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
        stored = _read(_run_file(state, store, session))
        try:
            return None if stored is None else cls(**stored)
        except TypeError:  # written by another version: ask again
            return None

    def save(self, state: Path, *, store: str, session: str) -> None:
        """Remember the choices for the next run of the session."""
        _write(_run_file(state, store, session), asdict(self))


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


def _run_file(state: Path, store: str, session: str) -> Path:
    key = json.dumps([store, session]).encode()
    return state / "runs" / f"{hashlib.sha256(key).hexdigest()}.json"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:  # cut off by a crash: nothing was confirmed
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    return stored if isinstance(stored, dict) else None


def _write(path: Path, entry: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entry, file)
        Path(temporary).replace(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
