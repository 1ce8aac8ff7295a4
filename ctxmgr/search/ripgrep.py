"""A search of files without an index, ignoring case. Runs ``rg`` if it is installed; reads files.

Used when there is no index. The words are passed as one argument after ``--``, as fixed strings:
nothing of a query is read as an option or a pattern.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypeAlias

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.search.documents import SearchResult
from ctxmgr.search.terms import STOP_WORDS, words

FILES: Final = "*.md"
RESULTS_MAX: Final = 1_000
FILES_MAX: Final = 100_000
"""Files that are looked at without ``rg``."""
FILE_BYTES_MAX: Final = 2_000_000
QUERY_WORDS_MAX: Final = 32
SNIPPET_CHARS_MAX: Final = 300
OUTPUT_BYTES_MAX: Final = 8_000_000
WAIT_SECONDS_MAX: Final = 30.0
"""For ``rg``; then the files are read here."""

_FOUND: Final = 0
_NOTHING_FOUND: Final = 1

CategoryOf: TypeAlias = Callable[[str], str | None]
"""Returns the category of a path."""


async def ripgrep_search(
    query: str,
    scope: Path = Path("knowledge"),
    *,
    limit: int = 10,
    category_of: CategoryOf | None = None,
) -> list[SearchResult]:
    """Return the Markdown files under a folder with the most words of the query; ties by path.

    Paths begin with ``scope``. Links are not followed, and hidden files are left out.
    """
    if not 1 <= limit <= RESULTS_MAX:
        raise Incorrect(f"limit is {limit}; pass 1 to {RESULTS_MAX}")
    if not await asyncio.to_thread(scope.is_dir):
        raise NotFound(f"there is no folder {scope}")
    asked = list(dict.fromkeys(words(query)))
    wanted = ([word for word in asked if word not in STOP_WORDS] or asked)[:QUERY_WORDS_MAX]
    if not wanted:
        return []
    program = shutil.which("rg")
    files = None if program is None else await _matching_files(program, wanted, scope)

    def read() -> list[SearchResult]:
        found = _scored(wanted, _markdown_files(scope) if files is None else files)
        best = sorted(found, key=lambda entry: (-entry[0], entry[1]))[:limit]
        return [
            SearchResult(
                path=path,
                snippet=snippet,
                score=score,
                category=(category_of(path) if category_of is not None else None) or "",
            )
            for score, path, snippet in best
        ]

    return await asyncio.to_thread(read)


async def _matching_files(program: str, wanted: Iterable[str], scope: Path) -> list[Path] | None:
    """Return the files that contain any of the words; None if ``rg`` does not answer."""
    patterns = [argument for word in wanted for argument in ("-e", word)]
    process = await asyncio.create_subprocess_exec(
        program,
        "--no-config",  # a configuration file could name programs to run
        "--no-ignore",
        "--no-messages",
        "--ignore-case",
        "--fixed-strings",
        "--files-with-matches",
        "--null",
        f"--max-filesize={FILE_BYTES_MAX}",
        f"--glob={FILES}",
        *patterns,
        "--",
        str(scope),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            output = await process.stdout.read(OUTPUT_BYTES_MAX)
            rest = await process.stdout.read(1)
            status = await process.wait() if not rest else None
    except TimeoutError:
        status = None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if status not in (_FOUND, _NOTHING_FOUND):
        return None
    files = [Path(os.fsdecode(name)) for name in output.split(b"\0") if name]
    # A glob finds hidden files, too.
    return [
        file
        for file in files
        if not any(part.startswith(".") for part in file.relative_to(scope).parts)
    ]


def _markdown_files(scope: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, names in os.walk(scope):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith(".") or not fnmatchcase(name, FILES):
                continue
            count += 1
            if count > FILES_MAX:
                return
            yield Path(folder, name)


def _scored(wanted: list[str], files: Iterable[Path]) -> Iterator[tuple[float, str, str]]:
    """Yield the share of the words that a file has, its path and its best line."""
    for file in files:
        try:
            if file.is_symlink() or file.stat().st_size > FILE_BYTES_MAX:
                continue
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:  # deleted meanwhile, or not ours to read
            continue
        lower = text.lower()
        score = sum(word in lower for word in wanted) / len(wanted)
        if score:
            yield score, file.as_posix(), _best_line(text, wanted)


def _best_line(text: str, wanted: list[str]) -> str:
    def matches(line: str) -> int:
        lower = line.lower()
        return sum(word in lower for word in wanted)

    line = max(text.splitlines(), key=matches).strip()
    longest_first = sorted(wanted, key=len, reverse=True)
    marked = re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)
    first = marked.search(line)
    start = max(0, first.start() - SNIPPET_CHARS_MAX // 3) if first is not None else 0
    return marked.sub(lambda match: f"**{match[0]}**", line[start : start + SNIPPET_CHARS_MAX])
