"""Run the tests, as `make test` does; a few failed ones get a second run, alone.

    python -m tests.run [ARGUMENTS OF PYTEST]

On a busy machine one test of some thousands can miss a deadline. If at most `RETRIED_MAX` tests
failed, exactly those are run once more, in one process without a neighbour. If all of them pass
then, the run passes, and each is named on a line that starts with FLAKY: such a test has a defect,
which is to be fixed. Anything else fails the run: more failures, a test that fails twice, an error
while collecting, a run that did not reach its end. On CI a skipped test counts as failed.

Starts processes.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import pytest

RETRIED_MAX: Final = 5
"""More failures than this are not one unlucky moment."""

ALONE: Final = ("-n", "0", "-p", "no:cacheprovider")
"""One process; on the command line it has priority over `PYTEST_ADDOPTS`."""


class Failures:
    """Remembers which tests failed, and whether every selected test was run."""

    def __init__(self, *, is_skip_failure: bool) -> None:
        self.nodeids: dict[str, None] = {}
        self.is_complete = True
        self._is_skip_failure = is_skip_failure

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        is_skipped = report.skipped and not hasattr(report, "wasxfail")
        if report.failed or (is_skipped and self._is_skip_failure):
            self.nodeids[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.is_complete = False

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        stopped_early = session.shouldfail or session.shouldstop or session.config.option.maxfail
        if stopped_early:
            self.is_complete = False


def run_tests(arguments: Sequence[str]) -> int:
    """Run pytest, and failed tests once more; return the exit status."""
    failures = Failures(is_skip_failure=os.environ.get("CI") == "true")
    status = int(pytest.main([*arguments], plugins=[failures]))
    if not deserves_a_second_run(status, failures):
        return status
    failed = list(failures.nodeids)
    _say(f"\n{len(failed)} failed: running only these once more, alone")
    again = subprocess.run([sys.executable, "-m", "pytest", *ALONE, *failed], check=False)
    if again.returncode != pytest.ExitCode.OK:
        return status
    for nodeid in failed:
        _say(f"FLAKY {nodeid}: failed, then passed alone")
    return int(pytest.ExitCode.OK)


def deserves_a_second_run(status: int, failures: Failures) -> bool:
    """Whether the run failed only because of a few tests."""
    return (
        status == pytest.ExitCode.TESTS_FAILED
        and failures.is_complete
        and 0 < len(failures.nodeids) <= RETRIED_MAX
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()  # before what the next process writes


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1:]))
