"""Branches for what-if work (``explore/*``) and for extraction (``extract/*``). Runs git.

They are made, filled and merged without a checkout: the person's files stay as they are. A branch
that nobody touched for a week is pruned; where it ended is kept under ``refs/ctxmgr/pruned/``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import Conflict, Incorrect, NotFound
from ctxmgr.knowledge.notes.held_folder import HeldFolder
from ctxmgr.knowledge.repository.commit_messages import CommitKind, commit_message
from ctxmgr.knowledge.repository.commits import GitCommit
from ctxmgr.knowledge.repository.memory_git import MemoryGit

KEPT_FOR: Final = timedelta(days=7)
PRUNED: Final = "refs/ctxmgr/pruned"

_NAME: Final = re.compile(r"(explore|extract)/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchState:
    name: str
    commit: str
    modified: Instant
    ahead: int
    """Commits that the current branch does not have."""


class Branches:
    """The branches of a knowledge repository."""

    def __init__(self, memory_git: MemoryGit) -> None:
        self._memory = memory_git
        self._git = memory_git.git

    async def create(self, name: str, *, start: str = "HEAD") -> str:
        """Create a branch at a commit; ``Conflict`` if there is one."""
        _require_name(name)
        commit = await self._git.revision(start)
        result = await self._git.run("update-ref", f"refs/heads/{name}", commit, "0" * len(commit))
        if result.code != 0:
            raise Conflict((name,))
        return commit

    async def all(self) -> list[BranchState]:
        """Return our branches by name."""
        listed = await self._git.output(
            "for-each-ref", "--format=%(refname)%00%(objectname)%00%(committerdate:unix)",
            "refs/heads/explore", "refs/heads/extract",
        )  # fmt: skip
        found = []
        for line in listed.splitlines():
            name, commit, seconds = line.split("\0")
            ahead = await self._git.output("rev-list", "--count", commit, "^HEAD")
            found.append(
                BranchState(
                    name=name.removeprefix("refs/heads/"),
                    commit=commit,
                    modified=int(seconds) * 1000,
                    ahead=int(ahead),
                )
            )
        return found

    async def export(self, name: str, folder: Path) -> list[str]:
        """Write the notes of a branch to an empty folder, to work on them there.

        Hidden files are not notes.
        """
        if folder.exists() and any(folder.iterdir()):
            raise Incorrect(f"{folder} is not empty")
        commit = await self._git.revision(f"refs/heads/{name}")
        files, written = HeldFolder(folder), []
        folder.mkdir(parents=True, exist_ok=True)
        for path, entry in (await self._memory.commits.tree_entries(commit)).items():
            if path.endswith(".md") and not any(part.startswith(".") for part in path.split("/")):
                text = (await self._memory.commits.blob(entry.id)).decode(errors="replace")
                files.create(path, text)
                written.append(path)
        return written

    async def commit(self, name: str, contents: Mapping[str, str | None], *, summary: str) -> str:
        """Commit notes to a branch that is not checked out; None removes one."""
        _require_name(name)
        kind = CommitKind(name.partition("/")[0])
        async with self._memory.commits.exclusive():
            return await self._memory.commits.commit_to_branch(
                name,
                {path: None if text is None else text.encode() for path, text in contents.items()},
                message=commit_message(kind, summary),
            )

    async def statistics(self, name: str) -> str:
        """Return how a branch differs from the current one, file by file (``diff --stat``)."""
        tip = await self._git.revision(f"refs/heads/{name}")
        head = await self._git.revision("HEAD")
        return await self._git.output(
            "diff-tree", "--stat=200", "-r", "--no-ext-diff", "--no-textconv", "--no-renames",
            head, tip,
        )  # fmt: skip

    async def merge(self, name: str, *, message: str | None = None) -> GitCommit:
        """Merge a branch into the current one, and delete it."""
        _require_name(name)
        made = await self._memory.merge(name, message=message)
        await self._drop(name)
        return made

    async def delete(self, name: str) -> str:
        """Delete a branch; its end is kept under ``refs/ctxmgr/pruned/``, which is returned."""
        _require_name(name)
        if await self._git.branch() == name:
            raise Incorrect(f"{name} is checked out: switch to another branch first")
        commit = await self._git.revision(f"refs/heads/{name}")
        kept = f"{PRUNED}/{name}-{commit[:10]}"
        await self._git.output("update-ref", kept, commit)
        await self._drop(name)
        return kept

    async def prune(self, *, now: Instant) -> list[str]:
        """Delete branches that nobody touched for a week; returns their names."""
        limit = now - int(KEPT_FOR.total_seconds() * 1000)
        current = await self._git.branch()
        old = [each.name for each in await self.all() if each.modified < limit]
        for name in (pruned := [each for each in old if each != current]):
            await self.delete(name)
        return pruned

    async def _drop(self, name: str) -> None:
        if (await self._git.run("update-ref", "-d", f"refs/heads/{name}")).code != 0:
            raise NotFound(f"there is no branch {name!r:.80}")


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        raise Incorrect(f"{name!r:.80} is not explore/NAME or extract/NAME")
