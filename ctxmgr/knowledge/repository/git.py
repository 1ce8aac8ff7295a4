"""Runs the git program on one repository. Starts processes.

A repository is data that may come from anywhere, but git takes programs to run from it: hooks,
``core.fsmonitor``, filters, external diffs, textconv, merge drivers, signing programs, pagers,
credential helpers, transports. So

- hooks, fsmonitor, signatures, pagers and editors are switched off for every command;
- commands that read the files of the work tree are not used at all: they run filters. Files are
  read by ``NotesFolder`` and stored with ``hash-object --no-filters``;
- differences are shown with ``--no-ext-diff --no-textconv``, and merged by ``merge-file``, which
  knows no drivers;
- only ``push`` may open a connection, with the person's own helpers, never the repository's. Which
  protocols a command may use is in its environment (``GIT_ALLOW_PROTOCOL``), which wins over
  every ``protocol.*`` of the configuration;
- the environment's ``GIT_*`` are dropped, apart from who the author is.

A repository that encloses the folder is not found: the folder has to be one itself.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.errors import Denied, Incorrect, NotFound, Unavailable

OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one command."""

COMMAND_SECONDS: Final = 120.0
"""Of one command; the largest repositories take a few seconds."""

REVISION_CHARS_MAX: Final = 200

NO_PROGRAMS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=",
    "core.askPass=",
    "diff.external=",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.quotePath=false",
    "core.untrackedCache=false",
)
"""Settings of every command: they win over the repository's."""

_NO_LITERAL: Final = frozenset({"check-ignore"})
"""Commands that refuse ``--literal-pathspecs``."""

_KEPT: Final = frozenset(
    {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}
    | {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitResult:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", errors="replace")


class Git:
    """Git in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.held: int | None = None
        """A lock that git keeps if this process is killed while git runs."""
        self._program: str | None = None
        self._git_dir: Path | None = None

    @property
    def is_installed(self) -> bool:
        """Whether there is a program git; without it every command is ``Unavailable``."""
        return self._program is not None or shutil.which("git") is not None

    async def output(
        self,
        *arguments: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        settings: tuple[str, ...] = (),
    ) -> str:
        """Run git and return what it prints; ``Unavailable`` with its message if it fails."""
        result = await self.run(*arguments, stdin=stdin, environment=environment, settings=settings)
        if result.code != 0:
            raise Unavailable(
                f"git {arguments[0]} failed in {self.root}: {result.err or result.text!r:.300}"
            )
        return result.text

    async def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        settings: tuple[str, ...] = (),
    ) -> GitResult:
        """Run git; the caller looks at the code."""
        program = self._found()
        flags = [part for setting in (*NO_PROGRAMS, *settings) for part in ("-c", setting)]
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                "--no-pager",
                "--no-optional-locks",
                *(() if arguments[0] in _NO_LITERAL else ("--literal-pathspecs",)),
                *flags,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.root,
                pass_fds=() if self.held is None else (self.held,),
                env={**self._environment(), **(environment or {})},
            )
        except (OSError, ValueError) as error:
            raise Unavailable(f"git cannot be started in {self.root}: {error}") from error
        return await _communicated(process, stdin, what=arguments[0])

    async def git_dir(self) -> Path:
        """Return the repository's own folder; says clearly what is wrong if there is none."""
        if self._git_dir is not None:
            return self._git_dir
        if not self.root.is_dir():
            raise NotFound(f"there is no folder {self.root}")
        found = await self.run("rev-parse", "--absolute-git-dir", "--is-bare-repository")
        if found.code != 0:
            if "dubious ownership" in found.err:
                raise Denied(
                    f"{self.root} belongs to another user; if you trust it:"
                    f" git config --global --add safe.directory {self.root}"
                )
            raise Incorrect(
                f"{self.root} is not a git repository: run `ctxmgr knowledge init {self.root}`"
            )
        folder, bare = found.text.splitlines()[:2]
        if bare == "true":
            raise Incorrect(f"{self.root} is a bare repository; choose one with files")
        self._git_dir = Path(folder)
        return self._git_dir

    async def revision(self, name: str) -> str:
        """Return the id of a commit; ``NotFound`` if there is none of this name."""
        if not name or len(name) > REVISION_CHARS_MAX or not name.isprintable():
            raise Incorrect(f"{name!r:.80} is not the name of a commit, tag or branch")
        found = await self.run(
            "rev-parse", "--verify", "-q", "--end-of-options", name + "^{commit}"
        )
        # rev-parse prints the separator as well
        ids = [line for line in found.text.split() if not line.startswith("-")]
        if found.code != 0 or len(ids) != 1:
            raise NotFound(f"there is no commit, tag or branch {name!r:.80}")
        return ids[0]

    async def head(self) -> str | None:
        """Return the commit of HEAD; None before the first commit."""
        found = await self.run("rev-parse", "--verify", "-q", "HEAD^{commit}")
        return found.text.strip() or None

    async def branch(self) -> str | None:
        """Return the branch that HEAD names; None if it is detached."""
        found = await self.run("symbolic-ref", "-q", "HEAD")
        name = found.text.strip()
        return name.removeprefix("refs/heads/") if found.code == 0 else None

    async def identity(self) -> tuple[str, ...]:
        """Return the settings for the author: none if the person has one, else ours."""
        if os.environ.get("GIT_AUTHOR_EMAIL") and os.environ.get("GIT_COMMITTER_EMAIL"):
            return ()
        found = await self.run("config", "--get", "user.email")
        return () if found.text.strip() else OWN_IDENTITY

    def _found(self) -> str:
        if self._program is None:
            self._program = shutil.which("git")
            if self._program is None:
                raise Unavailable(
                    "git is not installed or not in PATH: install it; notes can be read and"
                    " written without it"
                )
        return self._program

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name in _KEPT
        }
        return {
            **kept,
            "GIT_CEILING_DIRECTORIES": str(self.root.resolve().parent),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",  # what is looked at is what is pushed
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_EDITOR": "false",
            "GIT_PAGER": "cat",
            "LC_ALL": "C",
        }


OWN_IDENTITY: Final = ("user.name=ctxmgr", "user.email=ctxmgr@localhost")
"""The author of our commits if the person has not told git who they are."""


async def _communicated(
    process: asyncio.subprocess.Process, stdin: bytes, *, what: str
) -> GitResult:
    async def collect(stream: asyncio.StreamReader) -> bytes:
        parts, size = [], 0
        while part := await stream.read(1024 * 1024):
            size += len(part)
            if size > OUTPUT_BYTES_MAX:
                raise Unavailable(f"git {what} printed more than {OUTPUT_BYTES_MAX:,} bytes")
            parts.append(part)
        return b"".join(parts)

    async def feed(stream: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # git ended before it read everything
            stream.write(stdin)
            await stream.drain()
        stream.close()

    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(COMMAND_SECONDS), asyncio.TaskGroup() as group:
            out = group.create_task(collect(process.stdout))
            err = group.create_task(collect(process.stderr))
            group.create_task(feed(process.stdin))
        code = await process.wait()
    except TimeoutError as error:
        raise Unavailable(f"git {what} took more than {COMMAND_SECONDS:.0f} s") from error
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return GitResult(
        code=code, out=out.result(), err=err.result().decode("utf-8", errors="replace").strip()
    )
