"""Lists the requirement rows that no test names: ``make coverage-map``.

A row is a table line that begins with an id such as ``003-R017``; a rule of ``ambiguities.md`` is
one with ``003-A17``, ``X-C14`` or ``PG-05``. A test names a row by writing the id in its docstring,
its class's or its module's: an id among the arguments of a test proves nothing. Ranges
(``003-R017…R020``, ``003-R017 to R020``) name every row between. Rows that no test can prove are
listed in ``docs/ssot.md`` with how they are verified. The map never fails.
"""

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.components import ROOT, SHARED

ROW = re.compile(r"^\|\s*((?:(?:\d{3}|X)-[A-Z]|PG-)\d+)\s*\|(.*)")
NAMED = re.compile(r"\b(\d{3}|X|PG)-([A-Z]?)(\d+)(?:\s*(?:…|–|-|to)\s*(?:\1-)?\2?(\d+)\b)?")


def rows(folder: Path) -> dict[str, dict[str, str]]:
    """Return the rows of each file: id → requirement."""
    by_file: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.md")):
        lines = path.read_text(encoding="utf-8").splitlines()
        matches = [match for match in map(ROW.match, lines) if match]
        by_file[path.name] = {match[1]: match[2].split("|")[-2].strip() for match in matches}
    return by_file


def named(folder: Path) -> dict[str, set[str]]:
    """Return every id that a test names, with the files that name it."""
    by_row: dict[str, set[str]] = defaultdict(set)
    for path in sorted({*folder.rglob("test_*.py"), *folder.rglob("contracts/*.py")}):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            for text in _texts(node):
                for row in ids(text):
                    by_row[row].add(str(path.relative_to(folder)))
    return by_row


def ids(text: str) -> set[str]:
    """Return the ids in a text; ranges are expanded."""
    row_ids = set()
    for part, letter, first, last in NAMED.findall(text):
        numbers = range(int(first), int(last or first) + 1)
        row_ids |= {f"{part}-{letter}{number:0{len(first)}d}" for number in numbers}
    return row_ids


def reviewed(ssot: str) -> set[str]:
    """Return the rows that docs/ssot.md lists as verified by review."""
    section = ssot.partition("\n## Verified by review\n")[2].partition("\n## ")[0]
    cells = (line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    return {row for cell in cells for row in ids(cell)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("--all", action="store_true", help="list every unnamed row, not only ids")
    arguments = parser.parse_args()
    if not (SHARED / "requirements").is_dir():
        sys.stdout.write(
            "the requirements are not next to this checkout; there is nothing to map\n"
        )
        return
    requirements, tested = rows(SHARED / "requirements"), named(ROOT / "tests")
    verified = reviewed((ROOT / "docs" / "ssot.md").read_text(encoding="utf-8"))
    unnamed = {
        name: [row for row in texts if row not in tested] for name, texts in requirements.items()
    }
    missing = {name: [row for row in ids_ if row not in verified] for name, ids_ in unnamed.items()}
    if arguments.json:
        by_test = {row: sorted(files) for row, files in tested.items()}
        report = {"missing": missing, "reviewed": sorted(verified), "named": by_test}
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        return
    _show(requirements, unnamed, missing, full_text=arguments.all)


def _texts(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        return [ast.get_docstring(node) or ""]
    return []


def _show(
    requirements: dict[str, dict[str, str]],
    unnamed: dict[str, list[str]],
    missing: dict[str, list[str]],
    *,
    full_text: bool,
) -> None:
    console = Console(highlight=False)
    heads = ("file", "rows", "named by a test", "verified by review", "neither")
    table = Table(*heads, box=None, header_style="bold")
    for name, rows_of_file in requirements.items():
        total, untested, neither = len(rows_of_file), len(unnamed[name]), len(missing[name])
        counts = (total, total - untested, untested - neither, neither)
        table.add_row(name, *map(str, counts))
    console.print(table)
    for name, rest in missing.items():
        if rest:
            console.print(f"\n{name}", style="bold")
            texts = (
                [f"{row}  {requirements[name][row]}" for row in rest]
                if full_text
                else [" ".join(rest)]
            )
            console.print("\n".join(texts), markup=False)


if __name__ == "__main__":
    main()
