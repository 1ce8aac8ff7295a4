"""What git knows about the notes: when, where from, what changed, as of then. Runs git.

when did I learn X         learnt       commits that added or removed a text (pickaxe)
where did this come from   origins      blame, with the conversation of each commit
what changed               changes      the diff of two points in time
what did I learn today     today        the diff since the last commit before today
as of a tag                as_of        a note as it was
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.knowledge.notes.held_folder import check_path
from ctxmgr.knowledge.repository.commit_messages import FileChange, file_changes, session_of
from ctxmgr.knowledge.repository.commits import CommitFolder
from ctxmgr.knowledge.repository.git import Git

COMMITS_MAX: Final = 500
TEXT_CHARS_MAX: Final = 400
DIFF_CHARS_MAX: Final = 2_000_000
SCOPE: Final = ("knowledge", "topics", "archive")
"""What questions without a path are about."""

_FORMAT: Final = "--format=%x01%H%x00%ct%x00%an%x00%B%x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """A commit, and the files of it that were asked for."""

    commit: str
    time: str
    author: str
    summary: str
    session: str | None
    """The conversation that it came from."""
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrigin:
    """A line of a note, and the commit that it came with."""

    line: int
    text: str
    commit: str
    time: str
    author: str
    summary: str
    session: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeDiff:
    """What changed between two commits."""

    before: str | None
    after: str
    files: tuple[FileChange, ...]
    diff: str
    cut: bool
    """The diff was longer than is shown."""


class Introspection:
    """Questions about the history of a repository."""

    def __init__(self, git: Git, *, adopted: bool = False) -> None:
        self._git = git
        self._commits = CommitFolder(git)
        self._scope = () if adopted else SCOPE

    async def learnt(self, text: str, *, limit: int = 20) -> list[CommitEntry]:
        """Return the commits that added or removed a text, the newest first."""
        if not text.strip() or len(text) > TEXT_CHARS_MAX:
            raise Incorrect(f"give a text of 1 to {TEXT_CHARS_MAX} characters to look for")
        return await self._log(f"-S{text}", limit=limit)

    async def log(self, path: str | None = None, *, limit: int = 20) -> list[CommitEntry]:
        """Return the commits of the notes, or of one, the newest first."""
        found = await self._log(limit=limit, path=path)
        if path is not None and not found:
            raise NotFound(f"no commit has changed {path}")
        return found

    async def origins(self, path: str) -> list[LineOrigin]:
        """Return where each line of a note came from, as last committed."""
        check_path(path)
        await self._git.revision("HEAD")
        result = await self._git.run("blame", "--porcelain", "--no-textconv", "HEAD", "--", path)
        if result.code != 0:
            raise NotFound(f"{path} is not in the last commit")
        return await self._lines(result.text)

    async def changes(self, before: str, after: str = "HEAD") -> KnowledgeDiff:
        """Return what changed between two commits, tags or branches."""
        old, new = await self._git.revision(before), await self._git.revision(after)
        return await self._difference(old, new)

    async def today(self, day: date) -> KnowledgeDiff:
        """Return what changed since the day (UTC) began."""
        new = await self._git.revision("HEAD")
        found = await self._git.run("rev-list", "-1", f"--before={day}T00:00:00Z", "HEAD")
        return await self._difference(found.text.strip() or None, new)

    async def as_of(self, path: str, revision: str) -> str:
        """Return the text of a note at a commit, tag or branch."""
        check_path(path)
        commit = await self._git.revision(revision)
        entry = (await self._commits.tree_entries(commit, path)).get(path)
        if entry is None:
            raise NotFound(f"there was no {path} in {revision}")
        return (await self._commits.blob(entry.id)).decode(errors="replace")

    async def changed_notes(self, revision: str = "HEAD") -> list[str]:
        """Return the paths that a commit changed; of the first commit, all."""
        commit = await self._git.revision(revision)
        listed = await self._git.output(
            "diff-tree", "-r", "-m", "--root", "--no-commit-id", "--name-only", "--no-renames",
            "-z", commit,
        )  # fmt: skip
        return sorted({path for path in listed.split("\0") if path.endswith(".md")})

    async def _log(self, *flags: str, limit: int, path: str | None = None) -> list[CommitEntry]:
        if not 0 < limit <= COMMITS_MAX:
            raise Incorrect(f"limit is 1 to {COMMITS_MAX}, not {limit}")
        if path is not None:
            check_path(path)
        if await self._git.head() is None:
            return []
        listed = await self._git.output(
            "log", f"-{limit}", "-z", "--name-only", "--no-renames", "--no-ext-diff",
            "--no-textconv", "--no-show-signature", "--no-mailmap", _FORMAT, *flags, "HEAD",
            "--", *((path,) if path else self._scope),
        )  # fmt: skip
        return [_entry(part) for part in listed.split("\x01") if part.strip("\0\n")]

    async def _difference(self, old: str | None, new: str) -> KnowledgeDiff:
        before = old or (await self._git.output("mktree")).strip()
        diff = await self._git.output(
            "diff-tree", "-p", "-r", "--no-ext-diff", "--no-textconv", "--no-renames",
            "--src-prefix=a/", "--dst-prefix=b/", before, new, "--", *self._scope,
        )  # fmt: skip
        return KnowledgeDiff(
            before=old,
            after=new,
            files=file_changes(diff),
            diff=diff[:DIFF_CHARS_MAX],
            cut=len(diff) > DIFF_CHARS_MAX,
        )

    async def _lines(self, porcelain: str) -> list[LineOrigin]:
        found: list[tuple[str, int, str]] = []
        current, number = "", 0
        for line in porcelain.splitlines():
            if line.startswith("\t"):
                found.append((current, number, line[1:]))
                continue
            words = line.split(" ")
            if len(words) >= 3 and len(words[0]) in (40, 64) and words[2].isdigit():  # noqa: PLR2004
                current, number = words[0], int(words[2])
        about = {commit: await self._about(commit) for commit in {each[0] for each in found}}
        return [
            LineOrigin(
                line=number,
                text=text,
                commit=commit,
                time=about[commit].time,
                author=about[commit].author,
                summary=about[commit].summary,
                session=about[commit].session,
            )
            for commit, number, text in found
        ]

    async def _about(self, commit: str) -> CommitEntry:
        shown = await self._git.output(
            "log", "-1", "-z", "--no-show-signature", "--no-mailmap", _FORMAT, commit
        )
        return _entry(shown.lstrip("\x01"))


def _entry(part: str) -> CommitEntry:
    commit, seconds, author, message, *rest = part.split("\0")
    return CommitEntry(
        commit=commit,
        time=datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z"),
        author=author,
        summary=message.partition("\n")[0],
        session=session_of(message),
        paths=tuple(path.strip("\n") for path in rest if path.strip("\n")),
    )
