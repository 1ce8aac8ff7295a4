"""Which files the last commits of a repository changed. Starts git.

Only names are compared, between the trees of commits: no file is read, so that no filter, textconv
or external diff of the repository can run, and nothing is fetched that is not there.
"""

import asyncio
from pathlib import Path
from typing import Final

from ctxmgr.errors import CtxmgrError
from ctxmgr.knowledge.repository.git import Git

COMMITS_MAX: Final = 500
"""Commits that are read, the newest."""

READ_SECONDS: Final = 20.0
"""How long git may take; of a repository that takes longer, nothing is known."""

PATH_CHARS_MAX: Final = 400

_COMMIT: Final = "\x01"


async def commit_files(folder: Path) -> list[tuple[str, ...]]:
    """Return the files of each commit, the newest first; nothing if that cannot be found out.

    The folder may be inside a repository. Merges are left out.
    """
    root = await asyncio.to_thread(_repository_of, folder)
    if root is None:
        return []
    try:
        async with asyncio.timeout(READ_SECONDS):
            found = await Git(root).run(
                *("log", "-z", "--name-only", "--no-merges", f"--max-count={COMMITS_MAX}"),
                *("--format=%x01", "--no-renames", "--no-ext-diff", "--no-textconv"),
                *("--no-show-signature", "--no-color", "--no-notes", "-O/dev/null", "HEAD", "--"),
            )
    except (CtxmgrError, TimeoutError):
        return []
    if found.code != 0:  # another user's repository, no commit yet, objects that are missing
        return []
    commits = (_paths(part) for part in found.text.split(_COMMIT)[1:])
    return [paths for paths in commits if paths]


def _repository_of(folder: Path) -> Path | None:
    folder = folder.resolve()
    return next((root for root in (folder, *folder.parents) if (root / ".git").exists()), None)


def _paths(part: str) -> tuple[str, ...]:
    names = (name.lstrip("\n") for name in part.split("\0"))
    return tuple(name for name in names if 0 < len(name) <= PATH_CHARS_MAX and name.isprintable())
