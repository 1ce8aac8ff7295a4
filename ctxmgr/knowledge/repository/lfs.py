"""Attachments in Git LFS: a small pointer in git, the file in ``.git/lfs``. Writes files.

The pointer is written here, not by git's filter, since filters are programs that a repository
names. Where git-lfs is not installed attachments are not committed: they stay on disk, and wait.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

from ctxmgr.knowledge.notes.held_folder import HeldFolder

LFS_ENDINGS: Final = (".png", ".jpg", ".pdf", ".mp4")
LFS_BYTES_MAX: Final = 512 * 1024 * 1024

ATTRIBUTES: Final = "".join(
    f"attachments/**/*{ending} filter=lfs diff=lfs merge=lfs -text\n" for ending in LFS_ENDINGS
)
"""For ``.gitattributes``."""


def pointer_for(files: HeldFolder, path: str, *, git_dir: Path) -> bytes:
    """Store a file where LFS keeps them, and return the pointer that git keeps."""
    data = files.read_bytes(path, bytes_max=LFS_BYTES_MAX)
    digest = hashlib.sha256(data).hexdigest()
    target = git_dir / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{digest}.{os.getpid()}.tmp")
        temporary.write_bytes(data)
        temporary.replace(target)
    return (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(data)}\n"
    ).encode()
