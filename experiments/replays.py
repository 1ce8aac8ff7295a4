"""What experiments on recorded sessions share: where the sessions are, and a row of figures.

The sessions are not part of the project. They are looked for beside it, or where the command line
says; without them an experiment says so in one line and ends.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ctxmgr.bench.judging import Score
from ctxmgr.bench.recorded import RecordedSession
from ctxmgr.bench.recorded_files import read_folder
from ctxmgr.core.planner import Prices

ROOT: Final = Path(__file__).parent.parent
SESSIONS: Final = ROOT.parent / "shared" / "data" / "sessions"
REPORTS: Final = ROOT / "docs" / "experiments"
PRICES: Final = Prices()

Rows = Mapping[str, Mapping[str, Any]]
"""Condition → its figures."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """The files of one experiment."""

    folder: Path
    name: str

    def write(self, rows: Mapping[str, Any], *, plot: str, **filled: str) -> None:
        """Write data, report and plot."""
        page = (self.folder / "page.md").read_text(encoding="utf-8")
        data = json.dumps(rows, indent=1) + "\n"
        (self.folder / "data.json").write_text(data, encoding="utf-8")
        (REPORTS / f"{self.name}.md").write_text(page.format(**filled), encoding="utf-8")
        (REPORTS / f"{self.name}.svg").write_text(plot, encoding="utf-8")


def sessions() -> dict[str, list[RecordedSession]]:
    """Read the recorded sessions; ends the process where there are none."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    if not folder.is_dir():
        sys.exit(f"no recorded sessions at {folder}: name their folder")
    return read_folder(folder)


def row(score: Score, full: Score) -> dict[str, float]:
    """Return the figures of a policy beside append-only's."""
    return {
        "cost": round(score.cost(PRICES) / full.cost(PRICES), 3),
        "keep": round(score.keep, 3),
        "line": round(score.line, 3),
        "all_line": round(score.all_line, 3),
        "tokens": round(score.input_tokens / full.input_tokens, 3),
        "written": round(score.written_tokens / full.written_tokens, 2),
        "breaks_per_100": round(score.breaks_per_100, 1),
        "peak_tokens": score.peak_tokens,
    }


def table(rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Write rows as markdown."""
    head = "| | " + " | ".join(each.replace("_", " ") for each in columns) + " |"
    body = [
        f"| {name} | " + " | ".join(f"{values[each]:,}" for each in columns) + " |"
        for name, values in rows.items()
    ]
    return "\n".join([head, "| --- |" + " --- |" * len(columns), *body])
