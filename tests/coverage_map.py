"""Which requirement rows no test names: ``make coverage-map``.

A row is a table line that begins with an id such as ``003-R017``; a rule of ``ambiguities.md`` is
one with ``003-A17``, ``X-C14`` or ``PG-05``. A test names a row by writing the id in a docstring or
a marker. Ranges (``003-R017…R020``, ``003-R017 to R020``) name every row between. Rows that no test
can prove are listed in ``docs/ssot.md`` with how they are kept. It informs and never fails.
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
    """The rows of each file: id → what it asks."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.md")):
        lines = path.read_text(encoding="utf-8").splitlines()
        matches = [match for match in map(ROW.match, lines) if match]
        found[path.name] = {match[1]: match[2].split("|")[-2].strip() for match in matches}
    return found


def named(folder: Path) -> dict[str, set[str]]:
    """Every id that some test names, with the files that name it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.rglob("test_*.py")) + sorted(folder.rglob("*contract*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            for text in _texts(node):
                for row in ids(text):
                    found[row].add(str(path.relative_to(folder)))
    return found


def ids(text: str) -> set[str]:
    """The ids in a text, ranges written out."""
    found = set()
    for part, letter, first, last in NAMED.findall(text):
        numbers = range(int(first), int(last or first) + 1)
        found |= {f"{part}-{letter}{number:0{len(first)}d}" for number in numbers}
    return found


def reviewed(ssot: str) -> set[str]:
    """The rows that the design as built lists as kept by review, because no test can prove them."""
    section = ssot.partition("\n## Kept by review\n")[2].partition("\n## ")[0]
    cells = (line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    return {row for cell in cells for row in ids(cell)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("--all", action="store_true", help="list every unnamed row, not only ids")
    given = parser.parse_args()
    if not (SHARED / "requirements").is_dir():
        sys.stdout.write("the requirements are not beside this checkout; nothing to map\n")
        return
    asked, told = rows(SHARED / "requirements"), named(ROOT / "tests")
    kept = reviewed((ROOT / "docs" / "ssot.md").read_text(encoding="utf-8"))
    left = {name: [row for row in each if row not in told] for name, each in asked.items()}
    missing = {name: [row for row in each if row not in kept] for name, each in left.items()}
    if given.json:
        by_test = {row: sorted(by) for row, by in told.items()}
        known = {"missing": missing, "reviewed": sorted(kept), "named": by_test}
        sys.stdout.write(json.dumps(known, indent=2) + "\n")
        return
    _show(asked, left, missing, whole=given.all)


def _texts(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        return [ast.get_docstring(node) or ""]
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("pytest.mark."):
        return [ast.unparse(node)]
    return []


def _show(
    asked: dict[str, dict[str, str]],
    left: dict[str, list[str]],
    missing: dict[str, list[str]],
    *,
    whole: bool,
) -> None:
    console = Console(highlight=False)
    heads = ("file", "rows", "named by a test", "kept by review", "neither")
    table = Table(*heads, box=None, header_style="bold")
    for name, each in asked.items():
        unnamed, open_rows = len(left[name]), len(missing[name])
        counts = (len(each), len(each) - unnamed, unnamed - open_rows, open_rows)
        table.add_row(name, *map(str, counts))
    console.print(table)
    for name, rest in missing.items():
        if rest:
            console.print(f"\n{name}", style="bold")
            texts = [f"{row}  {asked[name][row]}" for row in rest] if whole else [" ".join(rest)]
            console.print("\n".join(texts), markup=False)


if __name__ == "__main__":
    main()
