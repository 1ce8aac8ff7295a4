"""Break the code in chosen places and show which test notices: ``make mutants``.

``mutations.toml`` lists the places, each with the requirement rows that it breaks. Each row of a
mutation is tried alone, and only those tests run that name the row: a row is proven if one of its
own tests fails when the row is broken. They run in a process that imports the mutated text of one
module in place of the file; nothing on disk changes. Tests that fail without any mutation are
listed and not counted. The exit status is 1 if there is one, or if a mutation goes unnoticed.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import pytest

from tests.coverage_map import ids
from tests.mutants.mutations import Mutation, files_naming, load
from tests.order import place

SECONDS_MAX: Final = 120
"""For the tests of one mutation: ten times what the slowest need on a busy machine."""

NOT_HERE: Final = "not xtdb and not postgres and not docker"
"""Servers take longer to start than all other tests of a mutation need."""

PRELOADED: Final = (
    "anyio apsw asyncio click httpx hypothesis.strategies orjson psutil pydantic "
    "pydantic_settings rich splintr sqlite3 starlette.applications watchdog.observers"
)
"""Imported once, before processes are forked; nothing here imports ctxmgr."""

PLUGINS: Final = tuple(
    f"-p{name}" for name in ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
)

NOTICED, SURVIVED, BROKEN, TIMED_OUT = "noticed", "SURVIVED", "BROKEN", "timed out"


class MutatedModule(importlib.abc.MetaPathFinder):
    """Imports the mutated text of one module; all others are left to the usual finders."""

    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._mutation.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None, f"there is no module {name}"
        spec.loader = _MutatedLoader(name, self._mutation)
        return spec


class _MutatedLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, mutation: Mutation) -> None:
        super().__init__(name, str(mutation.path))
        self._mutation = mutation

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return compile(self._mutation.mutated(), self.path, "exec", dont_inherit=True)


class TestsOfRows:
    """Runs only tests that name one of the rows, and remembers those that failed."""

    def __init__(self, rows: Iterable[str], *, without: Container[str]) -> None:
        self._rows = frozenset(rows)
        self._without = without
        self.failed: list[str] = []
        self.passed = 0
        self.broken: str | None = None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        named = [
            item
            for item in items
            if item.nodeid not in self._without and not self._rows.isdisjoint(_rows_of(item))
        ]
        items[:] = sorted(named, key=lambda item: -place(item.nodeid))  # the fast ones first

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken = str(report.longrepr).strip().splitlines()[-1]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)
        self.passed += report.when == "call" and report.passed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("only", nargs="*", help="rows or parts of file names, such as 003-R049")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="print one JSON object per mutation")
    arguments = parser.parse_args()
    chosen = [
        mutation
        for mutation in load()
        if not arguments.only
        or any(part in mutation.rows or part in mutation.file for part in arguments.only)
    ]
    if not chosen:
        sys.exit("no mutation matches")
    for name in PRELOADED.split():
        importlib.import_module(name)
    started = time.monotonic()
    rows = sorted({row for mutation in chosen for row in mutation.rows})
    parts = [(None, part) for part in _divided(rows, arguments.jobs)]
    passed, failing = 0, set()
    for *_, control in run_all(parts, jobs=arguments.jobs):
        if control["outcome"] not in {SURVIVED, NOTICED}:
            sys.exit(f"without any mutation: {control['test'] or control['outcome']}")
        passed += control["passed"]
        failing.update(control["failed"])
    for test in sorted(failing):
        sys.stderr.write(f"fails without any mutation: {test}\n")
    counts: dict[str, int] = {}
    pairs = [(mutation, [row]) for mutation in chosen for row in mutation.rows]
    for mutation, (row,), result in run_all(pairs, jobs=arguments.jobs, without=failing):
        assert mutation is not None
        counts[result["outcome"]] = counts.get(result["outcome"], 0) + 1
        _show(mutation, row, result, as_json=arguments.json)
    wrong = counts.get(SURVIVED, 0) + counts.get(BROKEN, 0)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    sys.stderr.write(
        f"{len(chosen)} mutations of {len(pairs)} rows: {summary}; "
        f"{passed} tests pass without any; {time.monotonic() - started:.0f} s\n"
    )
    sys.exit(1 if wrong or failing else 0)


def _divided(rows: Sequence[str], parts: int) -> Iterator[list[str]]:
    """Divide rows between processes; neighbours share tests, and stay together."""
    size = -(-len(rows) // parts)
    return (list(rows[at : at + size]) for at in range(0, len(rows), size))


def run_all(
    pairs: Sequence[tuple[Mutation | None, list[str]]],
    *,
    jobs: int,
    without: Container[str] = frozenset(),
) -> Iterator[tuple[Mutation | None, list[str], dict[str, Any]]]:
    """Run the tests of rows under mutations, some side by side, and yield results as they come."""
    waiting = list(reversed(pairs))
    files_naming([])  # reads every test once, before processes are forked
    running: dict[int, tuple[Mutation | None, list[str], str]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutation, rows = waiting.pop()
            handle, report = tempfile.mkstemp()
            os.close(handle)
            # a control runs the tests of many rows
            seconds = SECONDS_MAX * (1 if mutation else 20)
            child = _fork(mutation, rows, report, seconds=seconds, without=without)
            running[child] = (mutation, rows, report)
        child, _ = os.wait()
        mutation, rows, report = running.pop(child)
        text = Path(report).read_text(encoding="utf-8")
        Path(report).unlink()
        result = json.loads(text) if text else {"outcome": TIMED_OUT, "test": ""}
        yield mutation, rows, result


def _fork(
    mutation: Mutation | None,
    rows: list[str],
    report: str,
    *,
    seconds: int,
    without: Container[str],
) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
        signal.alarm(seconds)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        result = _tested(mutation, rows, without=without)
    except Exception as error:  # noqa: BLE001 (reported by the parent)
        result = {"outcome": BROKEN, "test": repr(error), "passed": 0, "failed": []}
    Path(report).write_text(json.dumps(result), encoding="utf-8")
    os._exit(0)


def _tested(
    mutation: Mutation | None, rows: list[str], *, without: Container[str]
) -> dict[str, Any]:
    flags = ["-q", "-p", "no:cacheprovider", "-m", NOT_HERE, *PLUGINS]
    if mutation is not None:
        sys.meta_path.insert(0, MutatedModule(mutation))
        flags.append("-x")
    tests = TestsOfRows(rows, without=without)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # half of the time to start
    pytest.main([*flags, *files_naming(rows)], plugins=[tests])
    found: dict[str, Any] = {"passed": tests.passed, "failed": tests.failed}
    if tests.broken is not None:
        return {"outcome": BROKEN, "test": tests.broken, **found}
    if tests.failed:
        return {"outcome": NOTICED, "test": tests.failed[0], **found}
    return {"outcome": SURVIVED if tests.passed else BROKEN, "test": "", **found}


def _rows_of(item: pytest.Item) -> set[str]:
    """Return the rows that a test names in its docstring, its class's or its module's."""
    owners = (getattr(item, name, None) for name in ("obj", "cls", "module"))
    return {row for owner in owners for row in ids(getattr(owner, "__doc__", None) or "")}


def _show(mutation: Mutation, row: str, result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        line = json.dumps({"row": row, "file": mutation.file, **result})
    else:
        by = result["test"] or f"{mutation.old.strip()!r} → {mutation.new.strip()!r}"
        line = f"{result['outcome']:9}  {row}  {mutation.file}  {by}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
