"""MemoryGit: commits, tags, reverts and pushes the notes of one repository. Runs git.

Only notes and attachments of ours are committed: ``knowledge/``, ``topics/``, ``archive/`` and
``attachments/``. In a folder that was adopted, the person's own files elsewhere are never
committed unless they are named. Conversations are committed to their own repository at once,
everything else in batches.
"""

import asyncio
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.core.model import follow
from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import (
    Conflict,
    CtxmgrError,
    Denied,
    ExtraMissing,
    Incorrect,
    InvalidNote,
    NotFound,
)
from ctxmgr.knowledge.notes.held_folder import NOT_UTF8, HeldFolder
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.note import read_note
from ctxmgr.knowledge.notes.note_types import check_note
from ctxmgr.knowledge.notes.notes_folder import NOTE_BYTES_MAX, ODD_NAME, NotesFolder
from ctxmgr.knowledge.repository.commit_messages import (
    CommitKind,
    ask_for_summary,
    change_list,
    commit_message,
    generate_commit_message,
)
from ctxmgr.knowledge.repository.commits import CommitFolder, GitCommit, TreeEntry
from ctxmgr.knowledge.repository.conversations import commit_conversation
from ctxmgr.knowledge.repository.git import Git
from ctxmgr.knowledge.repository.lfs import LFS_ENDINGS, pointer_for
from ctxmgr.knowledge.repository.remotes import push_address

if TYPE_CHECKING:
    from ctxmgr.core.model import Ledger, Model

OWN_FOLDERS: Final = ("knowledge", "topics", "archive", "attachments")
OWN_FILES: Final = (".gitignore", ".gitattributes")
ATTACHMENT_BYTES_MAX: Final = 10 * 1024 * 1024
"""Of an attachment that git itself keeps."""
PUSHED_OBJECTS_MAX: Final = 200_000
"""Objects that are looked at for secrets before a push."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")

FindSecrets = Callable[[str], Sequence[str]]
"""Returns what kinds of secrets a text has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    remote: str
    branch: str
    commit: str


class MemoryGit:
    """The git side of a knowledge repository."""

    def __init__(
        self,
        layout: Layout,
        *,
        model: "Model | None" = None,
        find_secrets: FindSecrets | None = None,
        now: Callable[[], Instant] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.layout = layout
        self.git = Git(layout.root)
        self.commits = CommitFolder(self.git)
        self.spent: Ledger | None = None
        """What the last summary cost; None if no model wrote it."""
        self.left_out: tuple[str, ...] = ()
        """What the last batch left out, and why."""
        self._files = HeldFolder(layout.root)
        self._notes = NotesFolder(layout)
        self._model = model
        self._find_secrets = find_secrets
        self._now = now

    async def batch_commit(
        self,
        message: str | None = None,
        *,
        kind: str = CommitKind.MEMORY,
        session: str | None = None,
        paths: Iterable[str] = (),
    ) -> GitCommit | None:
        """Commit what has changed in our folders, and in ``paths``; None if nothing has.

        Without a message one is generated. Notes with errors are left out, as is what the person
        has staged; ``remarks`` says so.
        """
        chosen = _kind(kind)
        async with self.commits.exclusive():
            contents, left_out = await asyncio.to_thread(self._contents, tuple(paths))
            self.left_out = tuple(left_out)
            head = await self.git.head()
            known = await self.commits.tree_entries("HEAD", *OWN_FOLDERS) if head else {}
            for path in known:
                if path not in contents and not (self.layout.root / path).exists():
                    contents[path] = None

            async def text(before: str, after: str) -> str:
                diff = await self.difference(before, after)
                summary = message or await self._summary(diff)
                return commit_message(chosen, summary, body=change_list(diff), session=session)

            made = await self.commits.commit(contents, message=text)
            self.left_out += self.commits.left_out
        return None if made is None else _with_remarks(made, left_out)

    async def commit_conversation(self, path: str, *, slug: str) -> GitCommit | None:
        """Commit a raw conversation at once, to its own repository, which is created if needed."""
        return await commit_conversation(self.layout, path, slug=slug)

    async def difference(self, before: str, after: str, *paths: str) -> str:
        """Return the unified diff of two commits or trees."""
        return await self.git.output(
            "diff-tree", "-p", "-r", "--no-ext-diff", "--no-textconv", "--no-renames",
            "--src-prefix=a/", "--dst-prefix=b/", before, after, "--", *paths,
        )  # fmt: skip

    async def tag_daily(self, day: date | None = None) -> str | None:
        """Tag the last commit of a day (UTC); None if there was none that day."""
        day = day or self._today()
        return await self._tag_period(f"memory/daily/{day}", day, day + timedelta(days=1))

    async def tag_weekly(self, day: date | None = None) -> str | None:
        """Tag the last commit of the ISO week that a day is in; None if there was none."""
        day = day or self._today()
        monday = day - timedelta(days=day.weekday())
        year, week, _ = day.isocalendar()
        name = f"memory/weekly/{year}-W{week:02}"
        return await self._tag_period(name, monday, monday + timedelta(days=7))

    async def tag_milestone(self, name: str, message: str) -> str:
        """Tag the current state with a name of the person's choice."""
        return await self._tag(f"memory/milestone/{_checked(name)}", "HEAD", message=message)

    async def tag_before(self, event: str) -> str:
        """Tag the current state before a change, so that it can be looked at or gone back to."""
        return await self._tag(
            f"memory/before/{_checked(event)}", "HEAD", message=f"before {event}"
        )

    async def tag_extract(self, version: str) -> str:
        """Tag the state after the extraction algorithm changed."""
        return await self._tag(
            f"memory/extract/{_checked(version)}", "HEAD", message=f"extraction {version}"
        )

    async def revert(self, commit: str) -> GitCommit:
        """Undo a commit by a new one; ``Conflict`` if later changes stand in the way.

        Files are only changed if nothing in them is uncommitted and all can be undone.
        """
        target = await self.git.revision(commit)
        parents = (await self.git.output("rev-list", "--parents", "-n", "1", target)).split()[1:]
        if len(parents) > 1:
            raise Incorrect(f"{target[:10]} is a merge; revert the commits that it merged")
        async with self.commits.exclusive():
            await self.commits.require_ready()
            after = await self.commits.tree_entries(target)
            before = await self.commits.tree_entries(parents[0]) if parents else {}
            paths = sorted(
                path for path in {*before, *after} if before.get(path) != after.get(path)
            )
            changes = await self._three_way(
                paths, base=target, other=parents[0] if parents else None
            )
            await asyncio.to_thread(self._apply, changes)
            subject = (await self.git.output("log", "-1", "--format=%s", target)).strip()

            async def text(_before: str, _after: str) -> str:
                return commit_message(
                    CommitKind.MAINTENANCE,
                    f"revert {subject}",
                    body=f"This reverts commit {target}.",
                )

            made = await self.commits.commit(
                {path: None if new is None else new.encode() for path, (_, new) in changes.items()},
                message=text,
            )
        if made is None:
            raise Incorrect(f"{target[:10]} is undone already")
        return made

    async def merge(self, branch: str, *, message: str | None = None) -> GitCommit:
        """Merge a branch into the current one; ``Conflict`` if both changed the same lines."""
        tip = await self.git.revision(f"refs/heads/{branch}")
        async with self.commits.exclusive():
            await self.commits.require_ready()
            found = await self.git.run("merge-base", "HEAD", tip)
            if found.code != 0:
                raise Incorrect(f"{branch} has no common history with the current branch")
            base = found.text.strip()
            if base == tip:
                raise Incorrect(f"{branch} is merged already")
            before, after = (
                await self.commits.tree_entries(base),
                await self.commits.tree_entries(tip),
            )
            paths = sorted(
                path for path in {*before, *after} if before.get(path) != after.get(path)
            )
            changes = await self._three_way(paths, base=base, other=tip)
            await asyncio.to_thread(self._apply, changes)

            async def text(_before: str, _after: str) -> str:
                kind = CommitKind.EXTRACT if branch.startswith("extract/") else CommitKind.EXPLORE
                return commit_message(kind, message or f"merge {branch}")

            made = await self.commits.commit(
                {path: None if new is None else new.encode() for path, (_, new) in changes.items()},
                message=text,
                second_parent=tip,
            )
        assert made is not None
        return made

    async def push(self, remote: str = "origin") -> PushResult:
        """Push the current branch and its tags; refused if any commit has a secret in it.

        Files, commit messages and tags are looked at, and exactly what was looked at is pushed.
        ``remote`` is a name, or the absolute path of a repository whose hooks the person trusts.
        The repository's own configuration chooses an https or ssh address and nothing else:
        helpers and ssh are the person's.
        """
        if self._find_secrets is None:
            raise Incorrect("a push needs a check for secrets")
        branch = await self.git.branch()
        head = await self.git.head()
        if branch is None or head is None:
            raise Incorrect("there is no branch with commits to push")
        address = await push_address(self.git, remote)
        tags = await self._memory_tags()
        await self._require_no_secrets([head, *tags.values()])
        helpers = await self.git.run("config", "--global", "--get-all", "credential.helper")
        ssh = await self.git.run("config", "--global", "--get", "core.sshCommand")
        await self.git.output(
            "push", "--no-verify", "--no-signed", "--recurse-submodules=no", "--porcelain",
            "--receive-pack=git-receive-pack", address.url,
            f"{head}:refs/heads/{branch}",
            *(f"{object_id}:{reference}" for reference, object_id in tags.items()),
            settings=(
                "credential.helper=",
                *(f"credential.helper={each}" for each in helpers.text.splitlines()),
            ),
            environment={
                "GIT_ALLOW_PROTOCOL": address.protocols,
                "GIT_SSH_COMMAND": ssh.text.strip() or "ssh",
            },
        )  # fmt: skip
        return PushResult(remote=address.url, branch=branch, commit=head)

    def _contents(self, paths: tuple[str, ...]) -> tuple[dict[str, bytes | None], list[str]]:
        """Read what may be committed, and say what may not be, and why."""
        contents: dict[str, bytes | None] = {}
        left_out: list[str] = []
        listed = [self._files.files(folder, ending="") for folder in OWN_FOLDERS]
        left_out += [f"{path!a}: {ODD_NAME}" for _, odd in listed for path in odd]
        found = [path for possible, _ in listed for path in possible]
        for path in dict.fromkeys((*found, *paths)):
            try:
                data = self._content(path)
            except NotFound:
                contents[path] = None
            except ExtraMissing:
                raise
            except InvalidNote as error:
                left_out.append(str(error))
            except CtxmgrError as error:
                left_out.append(f"{path}: {error}")
            else:
                contents[path] = data
        if not self.layout.adopted:
            for name in OWN_FILES:
                file = self.layout.root / name
                if file.is_file() and not file.is_symlink():
                    contents[name] = file.read_bytes()
        return contents, left_out

    def _content(self, path: str) -> bytes:
        if not path.endswith(".md"):
            if path.casefold().endswith(LFS_ENDINGS):
                if shutil.which("git-lfs") is None:
                    raise Incorrect("waits for git-lfs, which is not installed")
                return pointer_for(self._files, path, git_dir=self.layout.root / ".git")
            return self._files.read_bytes(path, bytes_max=ATTACHMENT_BYTES_MAX)
        data = self._files.read_bytes(path, bytes_max=NOTE_BYTES_MAX)
        try:
            note = read_note(path, data.decode())
        except UnicodeDecodeError as error:
            raise InvalidNote(NOT_UTF8, path=path) from error
        errors = [each for each in check_note(note) if each.severity == "error"]
        if errors:
            raise InvalidNote(errors[0].message, line=errors[0].line, path=path)
        return data

    async def _summary(self, diff: str) -> str:
        self.spent = None
        if self._model is None:
            return generate_commit_message(diff)
        try:
            summary, self.spent = await follow(ask_for_summary(diff), model=self._model)
        except CtxmgrError:  # a commit does not wait for a model
            return generate_commit_message(diff)
        return summary

    async def _three_way(
        self, paths: Sequence[str], *, base: str, other: str | None
    ) -> dict[str, tuple[str | None, str | None]]:
        """Return the text of HEAD and the text it becomes, for files that change."""
        ours = await self.commits.tree_entries("HEAD")
        bases = await self.commits.tree_entries(base)
        others = await self.commits.tree_entries(other) if other else {}
        changes: dict[str, tuple[str | None, str | None]] = {}
        for path in paths:
            texts = [await self._text(each.get(path)) for each in (ours, bases, others)]
            mine, old, new = texts
            if mine == new:
                continue
            if mine != old:
                new = await self._merged(path, mine, old, new)
            changes[path] = (mine, new)
        for path, (mine, _) in changes.items():
            if await asyncio.to_thread(self._on_disk, path) != mine:
                raise Conflict((path,))
        return changes

    async def _merged(self, path: str, mine: str | None, old: str | None, new: str | None) -> str:
        if mine is None or old is None or new is None:
            raise Conflict((path,))
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for name, text in (("mine", mine), ("old", old), ("new", new)):
                file = Path(folder, name)
                file.write_bytes(text.encode())
                names.append(str(file))
            result = await self.git.run("merge-file", "-p", "-q", *names)
        if result.code != 0:
            raise Conflict((path,))
        return result.out.decode()

    async def _text(self, entry: TreeEntry | None) -> str | None:
        if entry is None:
            return None
        try:
            return (await self.commits.blob(entry.id)).decode()
        except UnicodeDecodeError as error:
            raise Incorrect("the commit changes a file that is not text") from error

    def _on_disk(self, path: str) -> str | None:
        try:
            return self._notes.read(path).text
        except NotFound:
            return None

    def _apply(self, changes: dict[str, tuple[str | None, str | None]]) -> None:
        for path, (mine, new) in changes.items():
            if new is None:
                assert mine is not None
                self._notes.remove(path, replacing=mine)
            else:
                self._notes.write(path, new, replacing=mine)

    async def _tag_period(self, name: str, start: date, end: date) -> str | None:
        found = await self.git.run(
            "rev-list", "-1", f"--since={start}T00:00:00Z", f"--before={end}T00:00:00Z", "HEAD"
        )
        commit = found.text.strip()
        if not commit:
            return None
        return await self._tag(name, commit, message=None)

    async def _tag(self, name: str, target: str, *, message: str | None) -> str:
        commit = await self.git.revision(target)
        existing = await self.git.run("rev-parse", "-q", "--verify", f"refs/tags/{name}^{{commit}}")
        if existing.text.strip() == commit:
            return name
        if existing.code == 0 and message is not None:
            raise Conflict((name,))
        if message is None:
            await self.git.output("update-ref", f"refs/tags/{name}", commit)
        else:
            await self.git.output(
                "tag", "-a", "-F", "-", "--cleanup=whitespace", name, commit,
                stdin=(" ".join(message.split()) or name).encode(),
                settings=await self.git.identity(),
            )  # fmt: skip
        return name

    async def _memory_tags(self) -> dict[str, str]:
        """Return the objects of our tags, by reference."""
        listed = await self.git.output(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags/memory/"
        )
        pairs = (line.partition(" ") for line in listed.splitlines())
        return {reference: object_id for object_id, _, reference in pairs}

    async def _require_no_secrets(self, tips: Iterable[str]) -> None:
        """Look at the files, commit messages and tags that are reachable from ``tips``."""
        assert self._find_secrets is not None
        listed = await self.git.output(
            "rev-list", "--objects", "--stdin", stdin="".join(f"{tip}\n" for tip in tips).encode()
        )
        paths = {line.partition(" ")[0]: line.partition(" ")[2] for line in listed.splitlines()}
        if len(paths) > PUSHED_OBJECTS_MAX:
            raise Incorrect(
                f"more than {PUSHED_OBJECTS_MAX:,} objects cannot be checked for secrets"
            )
        kinds = await self.git.output(
            "cat-file", "--batch-check=%(objectname) %(objecttype)",
            stdin="".join(f"{object_id}\n" for object_id in paths).encode(),
        )  # fmt: skip
        for object_id, _, kind in (line.partition(" ") for line in kinds.splitlines()):
            if kind == "tree":
                continue
            text = await self.git.output("cat-file", kind, object_id)
            if kind != "blob":  # what is before the message are ids and names
                text = text.partition("\n\n")[2]
            found = self._find_secrets(text)
            if found:
                where = paths[object_id] or f"the {kind} {object_id[:10]}"
                raise Denied(
                    f"{where} has a secret ({', '.join(found)}) in the history: nothing was pushed;"
                    " remove it from the history first"
                )

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now() / 1000, UTC).date()


def _kind(kind: str) -> CommitKind:
    try:
        return CommitKind(kind)
    except ValueError as error:
        raise Incorrect(f"{kind!r:.80} is not one of {', '.join(CommitKind)}") from error


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or name.endswith((".", ".lock")) or ".." in name:
        raise Incorrect(f"{name!r:.80} is not a name: letters, digits, '.', '_', '+' and '-'")
    return name


def _with_remarks(commit: GitCommit, remarks: Sequence[str]) -> GitCommit:
    return GitCommit(
        id=commit.id,
        message=commit.message,
        paths=commit.paths,
        remarks=(*commit.remarks, *remarks),
    )
