"""Which files a command line prints."""

import pytest

from ctxmgr.core.discovery.read_files import READ_MAX, read_files


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("cat README.md", ["/p/README.md"]),
        ("ls && cat README.md", ["/p/README.md"]),
        ("cd src && cat a.py b.py | head -5", ["/p/src/a.py", "/p/src/b.py"]),
        ("head -n 20 a.py; tail -5 /x/b.py", ["/p/a.py", "/x/b.py"]),
        ("sed -n '1,20p' a.py", ["/p/a.py"]),
        ("sed -n -e 1p a.py", ["/p/a.py"]),
        ("cat 'a b.py'", ["/p/a b.py"]),
        ("sudo cat a.py 2>/dev/null", ["/p/a.py"]),
        ("cat a.py || cat b.py | head -5; cat c.py", ["/p/a.py", "/p/c.py"]),
        ("cat a.py || cat b.py && cat c.py", ["/p/a.py", "/p/c.py"]),
        ("cd src || exit 1; cat a.py", ["/p/src/a.py"]),
        ("sed -i s/a/b/ a.py", []),
        ("cat *.py", []),
        ("cat $FILE", []),
        ("cat a.py > b.py", []),
        ("cat - <<END\nx\nEND", []),
        ("cd $HOME && cat a.py", []),
        ("grep -n x a.py", []),
        ("echo cat a.py", []),
        ("cat 'unclosed", []),
        ("", []),
    ],
)
def test_files_are_those_that_are_written_out(command: str, files: list[str]) -> None:
    """D10: `cat FILE` is how agents read; a guess would show a file that nobody has read."""
    assert list(read_files(command, directory="/p")) == files


def test_a_line_yields_a_bounded_number_of_files() -> None:
    """A model can write any number of names."""
    names = " ".join(f"f{n}" for n in range(READ_MAX * 2))

    assert len(read_files(f"cat {names}", directory="/p")) == READ_MAX
