"""Export a session to a bundle file and import it. Reads and writes the store and one file."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.core.sessions.bundle_io import BUNDLE_BYTES_MAX, export_session, import_session
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Denied, Incorrect, NotFound, Unavailable
from ctxmgr.surfaces.views.last_turn import turn_count


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedBundle:
    session_id: str
    path: Path
    bytes: int
    root: str
    """SHA-256 of the bundle's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedBundle:
    session_id: str
    path: Path
    turns: int


async def export_to(store: Store, session_id: str, path: Path) -> ExportedBundle:
    """Write a session with its whole history to one file, which must not exist yet."""
    if await asyncio.to_thread(path.exists):  # before a minute of work; ``_write`` checks again
        raise Incorrect(_EXISTS.format(path=path))
    data, root = await export_session(store, session_id)
    with _translated(path):
        await asyncio.to_thread(_write, path, data)
    return ExportedBundle(session_id=session_id, path=path, bytes=len(data), root=root)


async def import_from(store: Store, path: Path) -> ImportedBundle:
    """Store the session of a bundle file."""
    with _translated(path):
        data = await asyncio.to_thread(_read, path)
    session_id = await import_session(store, data)
    turns = await turn_count(store, session_id)
    return ImportedBundle(session_id=session_id, path=path, turns=turns)


_EXISTS: Final = "{path} already exists: choose another file"


def _write(path: Path, data: bytes) -> None:
    """Write the whole file or none: a truncated bundle would go unnoticed until it is needed."""
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
        except BaseException:
            path.unlink()
            raise


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(BUNDLE_BYTES_MAX + 1)
    if len(data) > BUNDLE_BYTES_MAX:
        raise Incorrect(f"{path} is too large for a bundle (limit: {BUNDLE_BYTES_MAX:,} bytes)")
    return data


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Translate errors of the operating system."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{path}: {error.strerror}") from error
    except FileExistsError as error:
        raise Incorrect(_EXISTS.format(path=path)) from error
    except PermissionError as error:
        raise Denied(f"{path}: {error.strerror}") from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise Incorrect(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
