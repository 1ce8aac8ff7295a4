"""Our HTTP server answers as the official module does, except for the listed differences."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.components import SHARED, need
from tests.xtdb.servers import START, XtdbServer
from tests.xtdb.signed_tokens import jwks_setting

pytestmark = pytest.mark.xtdb

RECORDINGS: Final = SHARED / "data" / "xtdb-http"
COMPARE_TIMEOUT_S: Final = 280.0
REPLAY: Final = Path(__file__).with_name("replay.py")
PLAIN_PRINT: Final = {"CTXMGR_XTDB_PLAIN_PRINT": "1"}


SCENARIOS: Final[dict[str, tuple[str, list[str], Mapping[str, str]]]] = {
    "default": ("", ["--set", "{:allow-eval? true}"], PLAIN_PRINT),
    "allowlist": ("-allowlist", [], PLAIN_PRINT),
    "print-methods": ("-print-methods", ["--set", "{:allow-eval? true}"], {}),
    "read-only": ("-read-only", ["--set", "{:read-only? true}"], PLAIN_PRINT),
    "jwks": ("-jwks", ["--set", jwks_setting()], PLAIN_PRINT),
}


def listed_differences(scenario: str) -> dict[str, int]:
    listed = tomllib.loads((START.parent / "differences.toml").read_text(encoding="utf-8"))
    return {
        name: difference["answer"]
        for difference in listed["difference"]
        if difference["scenario"] == scenario
        for name in difference["exchanges"]
    }


def replay(url: str, suffix: str) -> str:
    files = [f"scenario{suffix}.jsonl", f"official-1.24.3{suffix}.jsonl"]
    done = subprocess.run(
        [sys.executable, "-B", str(REPLAY), url, *files, "--quiet"],
        check=False,
        capture_output=True,
        text=True,
        cwd=RECORDINGS,
        timeout=COMPARE_TIMEOUT_S,
    )
    assert "not compared" in done.stdout, done.stderr
    return done.stdout


def seen_differences(report: str) -> dict[str, int | None]:
    """Map exchange names to our status; None if only the rest of the response differs."""
    seen: dict[str, int | None] = {}
    name = ""
    for line in report.splitlines():
        if head := re.match(r"DIFF +\d+ (\S+) ", line):
            name = head.group(1)
            seen[name] = None
        elif got := re.match(r" +status: expected \S+, got (\d+):", line):
            seen[name] = int(got.group(1))
    return seen


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_server_answers_as_the_official_module_does(scenario: str, tmp_path: Path) -> None:
    """Clients written for the official server must work unchanged."""
    need("shared-data")
    suffix, args, env = SCENARIOS[scenario]

    with XtdbServer().start(data_dir=tmp_path, args=args, env=env) as server:
        report = replay(server.url, suffix)

    assert seen_differences(report) == listed_differences(scenario), report


def test_every_difference_has_a_reason() -> None:
    """Users who encounter a difference can look up its reason."""
    listed = tomllib.loads((START.parent / "differences.toml").read_text(encoding="utf-8"))

    assert all(len(difference["reason"]) > 40 for difference in listed["difference"])
    assert {difference["scenario"] for difference in listed["difference"]} <= set(SCENARIOS)
