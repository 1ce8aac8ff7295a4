"""Which files the next calls touch for the first time, predicted before each call.

Sessions of one repository are replayed in their order. Before each call every method names up to
``FILES`` files that were not touched yet; a file that one of the next 5 calls touches first was
predicted if it is among them.

    recency        files that were named or touched last, in this session or the one before
    most co-read   files that earlier sessions touched most often beside those of this one

``held`` files were named or touched before the call: others cannot be predicted from the past.

The repositories themselves are not there. What a session changed until it committed, or ended,
stands for the commits of their history; imports are parsed from the sources that outputs show.
"""

import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from ctxmgr.bench.report import Figure, Say
from ctxmgr.errors import Incorrect
from ctxmgr.memory.extraction.exchange import ToolRun
from ctxmgr.memory.extraction.tool_runs import changed_paths
from ctxmgr.memory.prediction.file_predictor import HORIZON, FilePredictor, SessionFiles
from ctxmgr.memory.prediction.paths import (
    FileNames,
    named_paths,
    normal_path,
    touched_paths,
)
from ctxmgr.memory.prediction.source_imports import imports_of

FILES: Final = 10
FILE_BYTES_MAX: Final = 500_000_000
BINS: Final = 5
HELD_BOUND: Final = 0.70

_BLOCK: Final = re.compile(r"```(?:bash|sh)?\n(.*?)```", re.DOTALL)
_COMMIT: Final = re.compile(r"\bgit\s+commit\b")
_TOOL: Final = re.compile(r'^\{"tool": .*\}$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One message: what it names, and what its calls touch."""

    named: tuple[str, ...]
    by_agent: bool
    touched: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    commits: bool = False


@dataclass(kw_only=True)
class _Tally:
    wanted: int = 0
    held: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    held_hits: Counter[str] = field(default_factory=Counter)
    bins: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """Tenths of probability → predictions, and how many came true."""


def prefetch_figures(folder: Path, *, quick: bool, say: Say) -> list[Figure]:
    """Replay the sessions of a folder."""
    figures = []
    for name, groups in (("pi-large-session", _pi), ("mini-swe", _mini_swe)):
        tally = _Tally()
        for repository, sessions in sorted(groups(folder).items()):
            say(f"memory: prefetch, {repository}, {len(sessions)} sessions")
            _replayed(sessions[:5] if quick else sessions, tally)
        if tally.wanted:
            figures += _figures(name, tally)
    return figures


def _replayed(sessions: Sequence[Sequence[_Step]], tally: _Tally) -> None:
    predictor, baselines = FilePredictor(), _Baselines()
    for steps in sessions:
        session = predictor.begin_session()
        baselines.begin_session()
        firsts = _first_touches([step for step in steps if step.touched])
        changed: dict[str, None] = {}
        number = 0
        for step in steps:
            session.name(step.named, by_agent=step.by_agent)
            baselines.name(step.named)
            changed.update(dict.fromkeys(step.changed))
            if step.commits:
                predictor.related.take_commits([tuple(changed)])
                changed.clear()
            if not step.touched:
                session.imports(step.imported)
                continue
            wanted = {path for path, first in firsts.items() if number <= first < number + HORIZON}
            _count(wanted, session, baselines, tally)
            session.touch(step.touched)
            baselines.touch(step.touched)
            number += 1
        predictor.related.take_commits([tuple(changed)])
        session.end()


def _count(wanted: set[str], session: SessionFiles, baselines: "_Baselines", tally: _Tally) -> None:
    predicted = session.predict(FILES)
    named = {
        "ctxmgr": {each.path for each in predicted},
        "recency": set(baselines.recent(session.touched)),
        "most co-read": set(baselines.co_read(session.touched)),
    }
    held = {path for path in wanted if session.knows(path)}
    tally.wanted += len(wanted)
    tally.held += len(held)
    for method, paths in named.items():
        tally.hits[method] += len(wanted & paths)
        tally.held_hits[method] += len(held & paths)
    for each in predicted:
        row = tally.bins[min(BINS - 1, int(each.probability * BINS))]
        row[0] += 1
        row[1] += each.path in wanted


def _first_touches(calls: Sequence[_Step]) -> dict[str, int]:
    firsts: dict[str, int] = {}
    for number, call in enumerate(calls):
        for path in call.touched:
            firsts.setdefault(path, number)
    return firsts


class _Baselines:
    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._clock = 0
        self._beside: dict[str, Counter[str]] = defaultdict(Counter)
        self._session: dict[str, None] = {}

    def begin_session(self) -> None:
        for path in self._session:
            self._beside[path].update(other for other in self._session if other != path)
        self._session = {}

    def name(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._clock += 1
            self._named[path] = self._clock

    def touch(self, paths: Sequence[str]) -> None:
        self.name(paths)
        self._session.update(dict.fromkeys(paths))

    def recent(self, touched: frozenset[str]) -> list[str]:
        order = sorted(self._named, key=lambda path: -self._named[path])
        return [path for path in order if path not in touched][:FILES]

    def co_read(self, touched: frozenset[str]) -> list[str]:
        beside: Counter[str] = Counter()
        for path in self._session:
            beside.update(self._beside.get(path, {}))
        order = sorted(beside, key=lambda path: (-beside[path], path))
        return [path for path in order if path not in touched][:FILES]


def _figures(name: str, tally: _Tally) -> list[Figure]:
    shares = {method: hits / tally.wanted for method, hits in tally.hits.items()}
    held = {method: hits / max(1, tally.held) for method, hits in tally.held_hits.items()}
    ours = shares.pop("ctxmgr")
    best = max(shares.values())
    table = ", ".join(
        f"{low / BINS:.1f}–{(low + 1) / BINS:.1f}: {row[1] / row[0]:.2f} of {row[0]:,}"
        for low, row in sorted(tally.bins.items())
    )
    return [
        Figure(
            what=f"{name}: first touches in the next {HORIZON} calls, within {FILES} files",
            value=ours,
            bound="above recency and most co-read",
            meets=ours > best,
            against=", ".join(f"{method} {share:.3f}" for method, share in shares.items()),
            note=f"{tally.wanted:,} first touches; probability and how often it came true: {table}",
        ),
        Figure(
            what=f"{name}: the same, of files that the past holds",
            value=held["ctxmgr"],
            bound=f"at least {HELD_BOUND:g}",
            meets=held["ctxmgr"] >= HELD_BOUND,
            against="rows: 0.70 of what is needed",
            note=f"the past holds {tally.held / tally.wanted:.0%} of the first touches",
        ),
    ]


def _pi(folder: Path) -> dict[str, list[list[_Step]]]:
    return _grouped(folder, "pi-large-session*.jsonl.gz")


def _mini_swe(folder: Path) -> dict[str, list[list[_Step]]]:
    return _grouped(folder, "mini-swe*.jsonl.gz")


def _grouped(folder: Path, pattern: str) -> dict[str, list[list[_Step]]]:
    """Return the sessions of each repository, in the order of the file."""
    groups: dict[str, list[list[_Step]]] = defaultdict(list)
    known: dict[str, FileNames] = defaultdict(FileNames)
    for path in sorted(folder.glob(pattern)):
        with gzip.open(path) as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise Incorrect(f"{path} has more than {FILE_BYTES_MAX} bytes of text")
        for line in data.splitlines():
            entry = orjson.loads(line)
            group = str(entry["id"]).rpartition("-")[0]
            groups[group].append(list(_steps(entry["messages"], known[group])))
    return groups


def _steps(messages: Sequence[dict[str, str]], known: FileNames) -> Iterator[_Step]:
    def once(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(known.one_name(path) for path in paths))

    last = ""
    for message in messages:
        text = message["text"]
        is_agent = message["role"] == "assistant"
        commands = [*_BLOCK.findall(text), *_TOOL.findall(text)] if is_agent else []
        spoken = _TOOL.sub("", _BLOCK.sub("", text)) if is_agent else text
        yield _Step(
            named=once(named_paths(spoken)),
            by_agent=is_agent,
            imported=() if is_agent else once(imports_of(last, text)),
        )
        for command in commands:
            touched = once(touched_paths(command))
            changed = tuple(path for path in once(_changed(command)) if path in touched)
            if touched or _COMMIT.search(command):
                yield _Step(
                    named=(),
                    by_agent=True,
                    touched=touched,
                    changed=changed,
                    commits=_COMMIT.search(command) is not None,
                )
                last = touched[-1] if touched else last


def _changed(command: str) -> Iterator[str]:
    """Yield the files that a call changes: a command, or the JSON of another tool."""
    args = {"command": command}
    tool = "bash"
    if command.startswith("{"):
        try:
            call = orjson.loads(command)
        except orjson.JSONDecodeError:
            return
        tool, args = str(call.get("tool")), call.get("args") or call.get("input") or {}
        if not isinstance(args, dict):
            return
    run = ToolRun(object_id="", object_hash=None, turn=0, tool=tool, args=args, ok=True, output="")
    yield from map(normal_path, changed_paths((run,)))
