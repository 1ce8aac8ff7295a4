"""Sessions as files to carry away and bring in. Reads and writes the store and one file."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ctxmgr.core.bundling import BUNDLE_BYTES_MAX, export_session, import_session
from ctxmgr.core.store import Store
from ctxmgr.errors import Denied, Incorrect, NotFound, Unavailable
from ctxmgr.surfaces.known_turns import turn_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    session_id: str
    path: Path
    bytes: int
    root: str
    """SHA-256 of all that the bundle holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    session_id: str
    path: Path
    turns: int


async def export_to(store: Store, session_id: str, path: Path) -> Exported:
    """Write a session with its whole past as one file, which must not be there yet."""
    await asyncio.to_thread(_refuse_existing, path)
    data, root = await export_session(store, session_id)
    with _translated(path):
        await asyncio.to_thread(_write, path, data)
    return Exported(session_id=session_id, path=path, bytes=len(data), root=root)


async def import_from(store: Store, path: Path) -> Imported:
    """Store the session of a bundle file."""
    with _translated(path):
        data = await asyncio.to_thread(_read, path)
    session_id = await import_session(store, data)
    turns = await turn_count(store, session_id)
    return Imported(session_id=session_id, path=path, turns=turns)


def _refuse_existing(path: Path) -> None:
    """Say so before a minute of work; ``_write`` would refuse it too."""
    if path.exists():
        raise Incorrect(f"{path} exists already: name another file")


def _write(path: Path, data: bytes) -> None:
    """Write all or nothing: half a bundle would be found out only when it is needed."""
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
        raise Incorrect(f"{path} has more than {BUNDLE_BYTES_MAX:,} bytes, and is no bundle")
    return data


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Say what the system says of a file as one of our errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{path}: {error.strerror}") from error
    except FileExistsError as error:
        raise Incorrect(f"{path} exists already: name another file") from error
    except PermissionError as error:
        raise Denied(f"{path}: {error.strerror}") from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise Incorrect(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
