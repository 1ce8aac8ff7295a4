"""Files for a benchmark, and what a client makes of them. Writes to the disk."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ctxmgr.bench.built_session import Filler
from ctxmgr.core.contents import File
from ctxmgr.core.file_outcomes import CLOCK_GRAIN_NS
from ctxmgr.core.filesystem_ids import host_filesystem_id
from ctxmgr.core.sources import FilesystemSource

FILE_CHARS: Final = 4_096

_FILES_PER_FOLDER: Final = 100


def write_files(folder: Path, *, count: int) -> list[Path]:
    """Write as many files of 4 KB, no two alike, in folders of a hundred."""
    filler, paths = Filler(folder.name), []
    for number in range(count):
        path = folder / f"{number // _FILES_PER_FOLDER:03d}" / f"{number:05d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"{number}\n"
        path.write_text(head + filler.text(FILE_CHARS - len(head)), encoding="utf-8")
        paths.append(path)
    return paths


def read_files(paths: Iterable[Path]) -> list[File]:
    """Make versions of them, as a client without a sandbox would."""
    host = host_filesystem_id()
    return [
        File.read(FilesystemSource(filesystem_id=host, path=str(path)), data=path.read_bytes())
        for path in paths
    ]


async def settle() -> None:
    """Let files grow older than a clock's grain: younger ones are read again on purpose."""
    await asyncio.sleep(CLOCK_GRAIN_NS / 1e9 * 1.1)
