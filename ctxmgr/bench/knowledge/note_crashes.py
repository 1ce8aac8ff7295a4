"""Kill processes that write and commit notes while a person edits, and look for what is lost.

Each round starts two agents and a person on one repository, and kills them at a random moment. The
agents add lines to a common note and to the person's, and commit; the person saves as editors do,
by replacing the file, without any lock, and loads it again if the last line is gone. Afterwards
every acknowledged line has to be somewhere, every frontmatter readable, and the repository clean.
"""

import asyncio
import random
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ctxmgr.bench.report import Figure, Say
from ctxmgr.errors import Unavailable
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository.memory_git import MemoryGit
from ctxmgr.knowledge.repository.setup import init_repository

ROUNDS: Final = 100
ROLES: Final = ("agent", "agent", "person")
SECONDS_MAX: Final = 0.6
"""A process lives at most so long after its first acknowledgement."""

SHARED: Final = "knowledge/reference/shared.md"
PERSONAL: Final = "knowledge/reference/personal.md"


async def crash_figures(rounds: int, *, say: Say) -> list[Figure]:
    """Kill writers at random moments; nothing acknowledged may be missing."""
    chance = random.Random(rounds)  # noqa: S311 (repeatable trials)
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        layout = await prepared(Path(folder))
        acknowledged: dict[str, int] = {}
        for number in range(rounds):
            say(f"knowledge: kill -9, round {number + 1} of {rounds}")
            acknowledged |= await one_round(layout, number, chance)
        faults = await faults_of(layout, acknowledged)
    return [
        Figure(
            what=f"kill -9, {rounds} rounds of two agents and a person: faults",
            value=len(faults),
            bound="none",
            meets=not faults,
            against="–",
            note=f"{sum(acknowledged.values()):,} lines acknowledged"
            + (f"; {faults[0]}" if faults else ""),
        )
    ]


async def prepared(folder: Path) -> Layout:
    """Set up a repository with the two notes that all write to."""
    layout = Layout(folder / "notes", folder / "raw")
    await init_repository(layout)
    notes = NotesFolder(layout)
    for path in (SHARED, PERSONAL):
        notes.write(path, "---\ncount: 0  # a person's remark\n---\n# Lines\n", replacing=None)
    return layout


async def one_round(layout: Layout, number: int, chance: random.Random) -> dict[str, int]:
    """Start the writers, kill them, and return how many lines each acknowledged."""
    names = [f"{role}-{number}-{place}" for place, role in enumerate(ROLES)]
    counts = await asyncio.gather(*(killed(layout, name, chance) for name in names))
    return dict(zip(names, counts, strict=True))


async def killed(layout: Layout, name: str, chance: random.Random) -> int:
    """Start a writer, kill it after a while, and return its last acknowledged line."""
    seconds = chance.random() * SECONDS_MAX
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ctxmgr.bench.knowledge.write_child"),
        *(str(layout.root), str(layout.raw), name),
        stdout=PIPE,
    )
    assert child.stdout is not None
    first = await child.stdout.readline()
    await asyncio.sleep(seconds)
    child.kill()
    # Programs of git that it started have its output, too, and end by themselves.
    lines = (first + await child.stdout.read()).split(b"\n")
    await child.wait()
    complete = lines[:-1]
    return int(complete[-1]) if complete else 0


async def faults_of(layout: Layout, acknowledged: dict[str, int]) -> list[str]:
    """Return what is wrong with the repository after writers were killed."""
    memory_git, faults = MemoryGit(layout), list[str]()
    try:
        await memory_git.batch_commit()
    except Unavailable as error:
        faults.append(str(error))
    faults += [f"{each.path}: {each.reason}" for each in NotesFolder(layout).scan().unreadable]
    texts = "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(layout.root.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(layout.root).parts
    )
    lines = set(texts.splitlines())
    for name, last in acknowledged.items():
        missing = [number for number in range(1, last + 1) if f"- {name} {number}" not in lines]
        if missing:
            faults.append(f"{name}: {len(missing)} of {last} lines are missing")
    git = memory_git.git
    left = (await git.output("status", "--porcelain", "--untracked-files=all")).splitlines()
    faults += [f"not clean: {line}" for line in left]
    checked = await git.run("fsck", "--strict", "--no-dangling", "--no-progress")
    faults += [checked.err] if checked.code else []
    return faults
