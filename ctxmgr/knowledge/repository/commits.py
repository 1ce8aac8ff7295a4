"""Commits of our own files that leave everything else of a repository as it is. Runs git.

The commit is made from the last one: our changed files are put into a copy of its tree. What a
person has staged is not part of it, and stays staged. A file of ours that the person has staged
something of is left to the person.

    flock            one ctxmgr at a time
    index.lock       git's own lock: no other git changes the index meanwhile
    blobs → tree → commit
    journal          so that the next process can finish what a killed one began
    update-ref       compare and set: fails if the branch moved
    index            our files in it become those of the commit

A process that is killed leaves the old commit or the new one, and an index that suits it after
the next call.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from ctxmgr.errors import Conflict, Incorrect, Unavailable
from ctxmgr.knowledge.repository.git import OWN_IDENTITY, Git

LOCK_WAIT_SECONDS: Final = 30.0
LOCK_PAUSE_SECONDS: Final = 0.05

IN_PROGRESS: Final[Mapping[str, str]] = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}
"""What git leaves in its folder while a person is in the middle of something."""

_FILE_MODES: Final = frozenset({"100644", "100755"})
_TOKEN: Final = b"ctxmgr\n"
"""The content of an ``index.lock`` of ours."""

LOCK_SOURCE: Final = "index.ours"
"""The file with this content, beside the journal, that the lock is made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommit:
    """A commit that was made."""

    id: str
    message: str
    paths: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    """What the person should know, such as files that were left out."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    mode: str
    id: str


@dataclass(slots=True, kw_only=True)
class PlannedCommit:
    """Files to commit, and those that are not, with the reason."""

    parent: str | None
    tree: str
    changed: dict[str, TreeEntry | None] = field(default_factory=dict)
    """None removes a file."""
    left_out: list[str] = field(default_factory=list)


MessageFor: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Returns the message for the change from one tree to another."""


class CommitFolder:
    """Commits files of one work tree."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.left_out: tuple[str, ...] = ()
        """What the last commit left to the person, also if there was nothing else to commit."""
        self._algorithm: str | None = None

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Keep other processes of ctxmgr from committing, and finish what one left."""
        folder = await self.git.git_dir() / "ctxmgr"
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            await _locked(descriptor, where=self.git.root)
            self.git.held = descriptor
            await self._finish(folder)
            yield
        finally:
            self.git.held = None
            os.close(descriptor)

    async def require_ready(self) -> None:
        """Raise ``Unavailable`` if the person is in the middle of something."""
        folder = await self.git.git_dir()
        for name, what in IN_PROGRESS.items():
            if (folder / name).exists():
                raise Unavailable(
                    f"{what} is in progress in {self.git.root}: finish or abort it; the notes are"
                    " safe on disk and are committed afterwards"
                )
        if await self.git.branch() is None:
            raise Unavailable(
                f"HEAD of {self.git.root} is detached, where a commit would be lost: switch to a"
                " branch, such as with git switch main"
            )

    async def commit(
        self,
        contents: Mapping[str, bytes | None],
        *,
        message: MessageFor,
        second_parent: str | None = None,
    ) -> GitCommit | None:
        """Commit files; None removes one. Returns None if nothing has changed.

        Call it inside of ``exclusive``.
        """
        await self.require_ready()
        async with self._index_lock() as index:
            plan = await self._plan(contents)
            self.left_out = tuple(plan.left_out)
            if not plan.changed and second_parent is None:
                return None
            await self._store_blobs(contents, plan)
            tree = await self._tree(plan, index)
            identity = await self.git.identity()
            parents = [f"-p{each}" for each in (plan.parent, second_parent) if each is not None]
            text = await message(plan.tree, tree)
            new = await self.git.output(
                "commit-tree", tree, "-F", "-", *parents,
                stdin=text.encode(), settings=identity,
            )  # fmt: skip
            commit_id = new.strip()
            await self._publish(commit_id, plan, index, summary=text.partition("\n")[0])
        remarks = list(plan.left_out)
        if identity == OWN_IDENTITY:
            remarks.append("git does not know who you are, the author is ctxmgr: set user.email")
        return GitCommit(
            id=commit_id, message=text, paths=tuple(sorted(plan.changed)), remarks=tuple(remarks)
        )

    async def commit_to_branch(
        self, branch: str, contents: Mapping[str, bytes | None], *, message: str
    ) -> str:
        """Commit files to a branch that is not checked out; returns the commit."""
        reference = f"refs/heads/{branch}"
        parent = await self.git.revision(reference)
        if await self.git.branch() == branch:
            raise Incorrect(f"{branch} is checked out: commit to it, or switch to another branch")
        folder = await self.git.git_dir() / "ctxmgr"
        index = folder / "index.branch"
        entries = {
            path: None if data is None else TreeEntry("100644", await self._blob_id(data))
            for path, data in contents.items()
        }
        plan = PlannedCommit(parent=parent, tree=parent, changed=entries)
        await self._store_blobs(contents, plan)
        index.unlink(missing_ok=True)
        environment = {"GIT_INDEX_FILE": str(index)}
        await self.git.output("read-tree", parent, environment=environment)
        await self._update_index(entries, environment)
        tree = (await self.git.output("write-tree", environment=environment)).strip()
        index.unlink(missing_ok=True)
        new = await self.git.output(
            "commit-tree", tree, "-p", parent, "-F", "-",
            stdin=message.encode(), settings=await self.git.identity(),
        )  # fmt: skip
        await self._set_reference(reference, new.strip(), parent, summary="ctxmgr")
        return new.strip()

    async def tree_entries(self, revision: str, *paths: str) -> dict[str, TreeEntry]:
        """Return the regular files of a commit below some paths."""
        listed = await self.git.output("ls-tree", "-r", "-z", "--full-tree", revision, *paths)
        found = {}
        for line in filter(None, listed.split("\0")):
            about, _, path = line.partition("\t")
            mode, kind, object_id = about.split()[:3]
            if kind == "blob" and mode in _FILE_MODES:
                found[path] = TreeEntry(mode, object_id)
        return found

    async def blob(self, object_id: str) -> bytes:
        result = await self.git.run("cat-file", "blob", object_id)
        if result.code != 0:
            raise Unavailable(f"git has no object {object_id} in {self.git.root}: {result.err}")
        return result.out

    async def _plan(self, contents: Mapping[str, bytes | None]) -> PlannedCommit:
        parent = await self.git.head()
        tree = await self.git.output(*(("rev-parse", "HEAD^{tree}") if parent else ("mktree",)))
        plan = PlannedCommit(parent=parent, tree=tree.strip())
        committed = await self.tree_entries("HEAD") if parent else {}
        staged, hidden = await self._index_entries()
        ignored = await self._ignored(path for path in contents if path not in committed)
        for path, data in contents.items():
            before, index = committed.get(path), staged.get(path)
            if data is None and before is None:
                continue
            if path in hidden or path in ignored:
                continue
            mode = before.mode if before is not None else "100644"
            entry = None if data is None else TreeEntry(mode, await self._blob_id(data))
            if entry == before:
                continue
            if index != before:
                plan.left_out.append(f"{path}: you have staged changes of it, so it is left to you")
                continue
            plan.changed[path] = entry
        return plan

    async def _index_entries(self) -> tuple[dict[str, TreeEntry], set[str]]:
        """Return what is staged, and the files that a sparse checkout leaves out."""
        listed = await self.git.output("ls-files", "-t", "-s", "-z", "--full-name")
        staged, hidden = {}, set()
        for line in filter(None, listed.split("\0")):
            about, _, path = line.partition("\t")
            tag, mode, object_id, stage = about.split()
            if stage != "0":
                raise Unavailable(
                    f"{path} has a conflict that is not resolved: resolve it, then commit"
                )
            staged[path] = TreeEntry(mode, object_id)
            if tag == "S":
                hidden.add(path)
        return staged, hidden

    async def _ignored(self, paths: Iterable[str]) -> set[str]:
        names = "".join(f"./{path}\0" for path in paths)
        if not names:
            return set()
        result = await self.git.run("check-ignore", "-z", "--stdin", stdin=names.encode())
        if result.code > 1:  # 1: none is
            raise Unavailable(f"git could not tell what is ignored: {result.err:.300}")
        return {path.removeprefix("./") for path in result.text.split("\0") if path}

    async def _blob_id(self, data: bytes) -> str:
        if self._algorithm is None:
            found = await self.git.run("rev-parse", "--show-object-format")
            self._algorithm = found.text.strip() if found.code == 0 else "sha1"
        header = b"blob %d\0" % len(data)
        return hashlib.new(self._algorithm, header + data, usedforsecurity=False).hexdigest()

    async def _store_blobs(self, contents: Mapping[str, bytes | None], plan: PlannedCommit) -> None:
        blobs = [data for path in plan.changed if (data := contents[path]) is not None]
        stream = b"".join(b"blob\ndata %d\n" % len(data) + data + b"\n" for data in blobs)
        if stream:
            await self.git.output("fast-import", "--quiet", "--done", stdin=stream + b"done\n")

    async def _tree(self, plan: PlannedCommit, index: Path) -> str:
        """Write the tree of the commit, and the index as it will be, to files of our own."""
        scratch = index.with_name("index.tree")
        scratch.unlink(missing_ok=True)
        environment = {"GIT_INDEX_FILE": str(scratch)}
        await self.git.output("read-tree", plan.tree, environment=environment)
        await self._update_index(plan.changed, environment)
        tree = await self.git.output("write-tree", environment=environment)
        scratch.unlink(missing_ok=True)
        await self._update_index(plan.changed, {"GIT_INDEX_FILE": str(index)})
        return tree.strip()

    async def _update_index(
        self, changed: Mapping[str, TreeEntry | None], environment: Mapping[str, str]
    ) -> None:
        nothing = "0" * len(await self._blob_id(b""))
        lines = [
            f"0 {nothing}\t{path}" if entry is None else f"{entry.mode} {entry.id}\t{path}"
            for path, entry in changed.items()
        ]
        if lines:
            await self.git.output(
                "update-index", "-z", "--index-info",
                stdin="".join(f"{line}\0" for line in lines).encode(), environment=environment,
            )  # fmt: skip

    async def _publish(
        self, commit_id: str, plan: PlannedCommit, index: Path, *, summary: str
    ) -> None:
        journal = index.with_name("commit.json")
        journal.write_text(json.dumps({"commit": commit_id}), encoding="utf-8")
        try:
            await self._set_reference("HEAD", commit_id, plan.parent, summary=summary)
        except Conflict:
            journal.unlink(missing_ok=True)
            raise
        index.replace(await self.git.git_dir() / "index")
        journal.unlink(missing_ok=True)

    async def _set_reference(
        self, reference: str, new: str, old: str | None, *, summary: str
    ) -> None:
        result = await self.git.run(
            "update-ref", "-m", f"ctxmgr: {summary}", reference, new, old or "0" * len(new),
        )  # fmt: skip
        if result.code != 0:
            if "but expected" in result.err or "reference already exists" in result.err:
                raise Conflict((reference,))
            raise Unavailable(f"git could not update {reference}: {result.err:.300}")

    @asynccontextmanager
    async def _index_lock(self) -> AsyncIterator[Path]:
        """Hold git's lock of the index; yields a copy of the index to prepare the new one in."""
        folder = await self.git.git_dir()
        lock, copy = folder / "index.lock", folder / "ctxmgr" / "index.new"
        token = folder / "ctxmgr" / LOCK_SOURCE
        token.write_bytes(_TOKEN)
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            try:
                _create_lock(lock, token=token)
                break
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"{lock} exists: another git is running; if none is, remove that file"
                    ) from None
                await asyncio.sleep(LOCK_PAUSE_SECONDS)
        try:
            token.unlink(missing_ok=True)
            copy.unlink(missing_ok=True)
            if (folder / "index").exists():
                copy.write_bytes((folder / "index").read_bytes())
            else:
                await self.git.output(
                    "read-tree", "--empty", environment={"GIT_INDEX_FILE": str(copy)}
                )
            yield copy
        finally:
            copy.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)

    async def _finish(self, folder: Path) -> None:
        """Finish or undo what a process began that was killed. The flock says it is gone."""
        lock, journal, copy = (
            folder.parent / "index.lock",
            folder / "commit.json",
            folder / "index.new",
        )
        published = None
        with suppress(FileNotFoundError, ValueError):
            published = json.loads(journal.read_text(encoding="utf-8")).get("commit")
        if published is not None and copy.exists() and await self.git.head() == published:
            copy.replace(folder.parent / "index")
        journal.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)
        (folder / LOCK_SOURCE).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            if lock.read_bytes() == _TOKEN:
                lock.unlink()


def _create_lock(lock: Path, *, token: Path) -> None:
    """Create git's lock together with its content; ``FileExistsError`` if there is one.

    A process that is killed leaves a lock that the next one knows to be ours, or none. An empty one
    could be git's, and would stop all commits until a person removes it.
    """
    try:
        os.link(token, lock)
    except FileExistsError:
        raise
    except OSError:  # a filesystem without hard links
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, token.read_bytes())
        finally:
            os.close(descriptor)


async def _locked(descriptor: int, *, where: Path) -> None:
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{where}: another process has been committing for {LOCK_WAIT_SECONDS:.0f} s;"
                    " nothing was written, retry later"
                ) from None
            await asyncio.sleep(LOCK_PAUSE_SECONDS)
        else:
            return
