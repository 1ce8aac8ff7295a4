"""Which lines of a source file are signatures."""

from typing import Final

import pytest

from ctxmgr.core.economy.folding import FoldableText, FoldLimits, fold, shown
from ctxmgr.core.economy.signatures import signature_rows
from ctxmgr.core.economy.visible_names import VisibleNames

PYTHON: Final = '''\
import os
class Reader(Base):
    """Reads."""
    def header(self,
               line) -> int:
        total = 1
        return total
'''
TYPESCRIPT: Final = """\
export class Reader {
	header(
		line: string,
	): void {
		this.total = 1;
	}
}
const limit = 1;
"""


@pytest.mark.parametrize(
    ("source", "path", "rows"),
    [
        (PYTHON, "src/reader.py", {1, 3, 4}),
        (TYPESCRIPT, "reader.ts", {0, 1, 2, 3}),
        ("fn main()\n  print\nend\n", "x.lua", {0}),
        (PYTHON, "notes.md", set()),
    ],
)
def test_lines_that_open_a_definition_are_signatures(
    source: str, path: str, rows: set[int]
) -> None:
    """They are found by the language's grammar or else by indentation; prose has none."""
    assert signature_rows(source, path) == rows


def test_signatures_of_a_fragment_are_found() -> None:
    """Agents read files in pieces."""
    fragment = "        return total\n\n" + PYTHON

    assert signature_rows(fragment, "reader.py") == {3, 5, 6}


def test_a_folded_source_keeps_its_signatures() -> None:
    """Its definitions are the main reason to open a file."""
    body = "\n".join(f"        total += {at % 90}" for at in range(200))
    source = f"def first(x):\n{body}\n\ndef other(y):\n{body}\n"
    rows = signature_rows(source, "a.py")
    text = FoldableText.of(source, count=len, signatures=rows)

    view = fold(text, limits=FoldLimits(tokens=60), visible=VisibleNames(), count=len)

    assert shown(source, view, handle="#1").count("def ") == 2
