"""Read the documents of a folder on disk. Touches the folder, and follows no links out of it.

    documents/
    ├── system_instructions/*.md
    ├── tool_docs/*.md
    ├── policies/*.md
    ├── specs/*.md
    └── references/*.md

Subfolders are read as well; files of other types than those in ``ENDINGS`` are left alone.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.errors import Incorrect
from ctxmgr.experience.documents.document import CONTENT_BYTES_MAX, FOLDERS, DocumentType

ENDINGS: Final = (".md", ".txt", ".rst", ".json", ".yaml", ".yml", ".toml")

FILES_MAX: Final = 10_000
"""Files of one folder; more is a mistake, such as a home folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFile:
    path: str
    """In the repository, such as ``policies/privacy.md``."""
    doc_type: DocumentType
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile:
    path: str
    reason: str


def read_folder(root: Path) -> tuple[list[DocumentFile], list[SkippedFile]]:
    """Return the documents below a folder by path, and files that could not be read."""
    if not root.is_dir():
        raise Incorrect(f"{root} is not a folder")
    files: list[DocumentFile] = []
    skipped: list[SkippedFile] = []
    for doc_type, folder in FOLDERS.items():
        for file in _files(root / folder):
            if len(files) + len(skipped) >= FILES_MAX:
                raise Incorrect(f"{root} has more than {FILES_MAX} documents")
            path = file.relative_to(root).as_posix()
            try:
                content = _read(file)
            except (OSError, UnicodeDecodeError, Incorrect) as error:
                skipped.append(SkippedFile(path=path, reason=str(error)))
            else:
                files.append(DocumentFile(path=path, doc_type=doc_type, content=content))
    return files, skipped


def _files(folder: Path) -> list[Path]:
    if folder.is_symlink():
        return []
    return sorted(
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith(ENDINGS)
    )


def _read(file: Path) -> str:
    """Read a text file; a link is refused, since it may lead anywhere."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Incorrect("not a regular file")
        data = opened.read(CONTENT_BYTES_MAX + 1)
    if len(data) > CONTENT_BYTES_MAX:
        raise Incorrect(f"larger than {CONTENT_BYTES_MAX} bytes")
    return data.decode("utf-8")
