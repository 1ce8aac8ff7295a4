"""Shared by experiments on recorded sessions: reading the sessions and tabulating the figures.

The sessions are not part of the project. Their folder is the first argument of an experiment or,
for ``make experiments``, the environment variable ``SESSIONS``.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ctxmgr.bench.economy.judge import Score
from ctxmgr.bench.economy.sessions import RecordedSession, read_folder
from ctxmgr.core.economy.policy import Prices

ROOT: Final = Path(__file__).parent.parent
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
    """Read the recorded sessions; exit the process if their folder is not given or missing."""
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SESSIONS")
    if not folder:
        sys.exit("this experiment replays recorded sessions; pass their folder as an argument")
    if not Path(folder).is_dir():
        sys.exit(f"{folder} is not a folder; pass the folder of the recorded sessions")
    return read_folder(Path(folder))


def row(score: Score, full: Score) -> dict[str, float]:
    """Return the figures of a policy relative to append-only."""
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
    """Return the rows as a markdown table."""
    head = "| | " + " | ".join(column.replace("_", " ") for column in columns) + " |"
    body = [
        f"| {name} | " + " | ".join(f"{values[column]:,}" for column in columns) + " |"
        for name, values in rows.items()
    ]
    return "\n".join([head, "| --- |" + " --- |" * len(columns), *body])
