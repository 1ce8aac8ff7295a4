"""Read and write bundle files. Reads and writes the host's disk.

Errors of the operating system become ours, and every error names the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ctxmgr.core.private_files import private_opener
from ctxmgr.core.sessions.bundle_limits import BUNDLE_BYTES_MAX
from ctxmgr.errors import BundleDamaged, Denied, Incorrect, NotFound, Unavailable


def read_bundle_file(path: Path) -> bytes:
    """Return the bytes of a bundle file."""
    with file_errors(path), path.open("rb") as file:
        data = file.read(BUNDLE_BYTES_MAX + 1)
    if len(data) > BUNDLE_BYTES_MAX:
        raise Incorrect(f"{path} is too large for a bundle (limit: {BUNDLE_BYTES_MAX:,} bytes)")
    return data


def check_free(path: Path) -> None:
    """Raise ``Incorrect`` if a file exists; writing checks it again."""
    if path.exists():
        raise Incorrect(f"{path} already exists: choose another file")


def write_bundle_file(path: Path, data: bytes, *, replace: bool) -> None:
    """Write the whole file or none: a truncated bundle would go unnoticed until it is needed."""
    with file_errors(path), _opened(path, replace=replace) as file:
        try:
            file.write(data)
            file.flush()
        except BaseException:
            path.unlink()
            raise


def _opened(path: Path, *, replace: bool) -> BinaryIO:
    return open(path, "wb" if replace else "xb", opener=private_opener)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in errors about its content."""
    try:
        yield
    except BundleDamaged as error:
        raise BundleDamaged(f"{path}: {error}") from error
    except Incorrect as error:
        if type(error) is not Incorrect:  # with a message that is built from fields
            raise
        raise Incorrect(f"{path}: {error}") from error


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Translate errors of the operating system."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{path}: {error.strerror}") from error
    except FileExistsError as error:
        raise Incorrect(f"{path} already exists: choose another file") from error
    except PermissionError as error:
        raise Denied(f"{path}: {error.strerror}") from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise Incorrect(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
