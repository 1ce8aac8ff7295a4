"""Fixtures of all tests: an in-memory XTDB server, stores of both kinds; skips fail on CI.

Slow files run first, so that no worker is left with one at the end. Python's garbage collector
pauses while tests are collected, which takes half as long then.
"""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.components import LONG
from tests.order import place
from tests.xtdb.servers import PATIENCE_S, SHORT_LIVED, XtdbServer, fetch, require_xtdb

pytest.register_assert_rewrite("tests.contracts", "tests.journeys")

os.environ.update({**SHORT_LIVED, **os.environ})

gc.disable()  # until everything is collected

settings.register_profile(
    "local",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],  # it measures the machine, not the strategy
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.register_profile("long", settings.get_profile("local"), max_examples=2_000)
if LONG:
    settings.load_profile("long")
else:
    settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")


@pytest.fixture(scope="session")
def xtdb_server() -> Iterator[XtdbServer]:
    """One in-memory server for all tests that use unique ids."""
    require_xtdb()
    with XtdbServer() as server:
        yield server


@pytest.fixture(scope="session")
def xtdb_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The store URL of that server, or of the one in ``CTXMGR_TEST_XTDB_URL``."""
    running = os.environ.get("CTXMGR_TEST_XTDB_URL")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxmgr.stores.xtdb.store.TIMEOUT_S", PATIENCE_S)
        yield f"xtdb+{running or request.getfixturevalue('xtdb_server').url}"


@pytest.fixture(params=["sqlite", pytest.param("xtdb", marks=pytest.mark.xtdb)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of each technology: journeys and integrations run on both."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("xtdb_url")
    return url


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.nodeid))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Download and compile the server first: it takes minutes, more than a test's time limit."""
    gc.enable()
    needed = any(item.get_closest_marker("xtdb") for item in session.items)
    if not needed or session.config.option.collectonly or not shutil.which("java"):
        return
    try:
        fetch()
    except RuntimeError as error:  # the tests that need it will fail
        session.config.get_terminal_writer().line(str(error), red=True)


class SkipsCount:
    """Fails the run if tests were skipped: on CI everything is installed."""

    def __init__(self) -> None:
        self._skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._skipped:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._skipped:
            terminalreporter.section("skipped on CI, which counts as failed", red=True)
            for nodeid in self._skipped:
                terminalreporter.write_line(nodeid)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI") == "true":
        config.pluginmanager.register(SkipsCount())
