"""`make test` runs a few failed tests once more, and says which ones needed it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.components import ROOT
from tests.run import RETRIED_MAX, Failures, deserves_a_second_run

SUITE = """
import pathlib, pytest

def test_sound():
    pass

@pytest.mark.parametrize("name", ["one::two [x]"])
def test_unlucky(name):
    seen = pathlib.Path("seen")
    assert seen.exists() or seen.touch()

def test_broken():
    assert {sound}

def test_last():
    pass
"""


def _run(
    folder: Path, *arguments: str, sound: bool = True, options: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / "test_suite.py").write_text(SUITE.format(sound=sound))
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {
        **{name: value for name, value in os.environ.items() if "PYTEST" not in name},
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": f"-p xdist {options}",
        "PYTHONPATH": str(ROOT),
        "CI": "true",
    }
    command = [sys.executable, "-m", "tests.run", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_test_that_passes_alone_is_named_and_the_run_passes(tmp_path: Path) -> None:
    """One unlucky moment must not refuse a change, and must not stay hidden."""
    done = _run(tmp_path, "-n", "2", "--dist", "loadfile", options="--durations=1")

    assert done.returncode == 0, done.stdout + done.stderr
    flaky = [line for line in done.stdout.splitlines() if line.startswith("FLAKY")]
    assert flaky == ["FLAKY test_suite.py::test_unlucky[one::two [x]]: failed, then passed alone"]
    assert "1 failed, 3 passed" in done.stdout
    assert "1 passed" in done.stdout.partition("once more")[2], "only the failed one is repeated"

    again = _run(tmp_path)

    assert again.returncode == 0
    assert "4 passed" in again.stdout
    assert "once more" not in again.stdout


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    """Its neighbour, which passed the second time, does not excuse it."""
    done = _run(tmp_path, sound=False)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout.partition("once more")[2]
    assert "FLAKY" not in done.stdout


def test_a_run_that_stops_at_the_first_failure_is_not_excused(tmp_path: Path) -> None:
    """The tests after it never ran."""
    done = _run(tmp_path, "-x")

    assert done.returncode != 0
    assert "once more" not in done.stdout


@pytest.mark.parametrize(
    ("status", "failed", "is_complete", "expected"),
    [
        (pytest.ExitCode.OK, 0, True, False),
        (pytest.ExitCode.TESTS_FAILED, 0, True, False),
        (pytest.ExitCode.TESTS_FAILED, 1, True, True),
        (pytest.ExitCode.TESTS_FAILED, RETRIED_MAX, True, True),
        (pytest.ExitCode.TESTS_FAILED, RETRIED_MAX + 1, True, False),
        (pytest.ExitCode.TESTS_FAILED, 1, False, False),
        (pytest.ExitCode.INTERRUPTED, 1, True, False),
        (pytest.ExitCode.INTERNAL_ERROR, 1, True, False),
    ],
)
def test_only_a_few_failures_of_a_complete_run_are_repeated(
    *, status: int, failed: int, is_complete: bool, expected: bool
) -> None:
    """Without failed tests nothing is repeated: pytest without ids would run everything."""
    failures = Failures(is_skip_failure=True)
    failures.nodeids = {f"test_{number}": None for number in range(failed)}
    failures.is_complete = is_complete

    assert deserves_a_second_run(status, failures) is expected
