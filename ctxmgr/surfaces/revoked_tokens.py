"""Tokens that were ended before their time. Owns a file beside the secret.

    serve.revoked     a line for each: its id, and when it was ended, in seconds since 1970

It only grows, by a line that is written at once: two who revoke at the same moment both do. Each
begins with a newline, so that one which a full disk has cut short swallows no other. Servers look
whether it has changed with every request, so a token ends while they run; what they have seen ended
stays so until they end, even if the file vanishes. A file that cannot be read ends all of them.
"""

import os
import re
import time
from pathlib import Path
from typing import Final

from ctxmgr.errors import Denied, Incorrect, Unavailable
from ctxmgr.surfaces.access_tokens import PREFIX, TOKEN_ID_BYTES, Grant, Keys, make_secret

REVOKED_FILE: Final = "serve.revoked"

_ID: Final = re.compile(f"[0-9a-f]{{{2 * TOKEN_ID_BYTES}}}")

_Stamp = tuple[int, int, int]


class Revoked:
    """The ids of a folder, read again when they have changed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REVOKED_FILE
        self._stamp: _Stamp | None = None
        self._ids: frozenset[str] = frozenset()

    def __contains__(self, token_id: object) -> bool:
        stamp = self._now()
        if stamp != self._stamp:
            # What was ended stays so while this server runs, whatever becomes of the file.
            self._ids |= frozenset() if stamp is None else self._read()
            self._stamp = stamp
        return token_id in self._ids

    def _now(self) -> _Stamp | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(error) from error
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> frozenset[str]:
        try:
            lines = self._path.read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error
        return frozenset(line.partition(" ")[0] for line in lines if line)

    def _unreadable(self, error: Exception) -> Denied:
        return Denied(f"{self._path} cannot be read, so no token is taken: {error}")


def revoke_token(folder: Path, named: str) -> str:
    """End a token, given as it is or by its id; return the id."""
    token_id = _id_of(folder, named)
    if token_id not in Revoked(folder):
        # On a line of its own, even after one that a full disk has cut short.
        _append(folder / REVOKED_FILE, f"\n{token_id} {int(time.time())}\n".encode())
    return token_id


def _id_of(folder: Path, named: str) -> str:
    if named.startswith(PREFIX):
        grant: Grant = Keys(make_secret(folder), ()).signed(named)
        assert grant.token_id is not None, "every token has an id"
        return grant.token_id
    if not _ID.fullmatch(named):
        raise Incorrect(f"{named!r:.80} is neither a token nor the id that was told with one")
    return named


def _append(path: Path, line: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if os.write(descriptor, line) != len(line):
                raise Unavailable(f"{path} cannot be written: only a part of the line fitted")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
