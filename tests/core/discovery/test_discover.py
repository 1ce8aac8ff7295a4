"""Discovery: which command produced an output, and which paths the output names."""

import pytest

from ctxmgr.core.discovery.command_line import producing_command
from ctxmgr.core.discovery.discover import discover
from ctxmgr.errors import Incorrect

LONG = """total 12
drwxr-xr-x 2 me me 4096 Nov 16 23:14 src
-rw-r--r-- 1 me me  123 Nov  6  2025 a b.md
lrwxrwxrwx 1 me me    3 Nov 16 23:14 link -> a b.md
srwxr-xr-x 1 me me    0 Nov 16 23:14 sock
crw-rw-rw- 1 me me 1, 3 Nov 16 23:14 null
"""


def discovered(command: str, output: str, **options: object) -> list[str]:
    return [
        path.removeprefix("/w/")
        for path in discover(command, directory="/w", output=output, **options)  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("ls", "a\nb c\n", ["a", "b c"]),
        ("ls src", "a\nb\n", ["src/a", "src/b"]),
        ("ls src/", "a\n", ["src/a"]),
        ("ls src/a.py", "src/a.py\n", ["src/a.py"]),
        ("ls a", "a\n", ["a", "a/a"]),
        ("ls ../x", "a\n", ["../x/a"]),
        ("ls /abs", "a\n", ["/abs/a"]),
        ("ls -la", LONG, ["a b.md", "link"]),
        ("ls x y", "y\n\nx:\na\nb\n", ["y", "x/a", "x/b"]),
        ("ls src/*", "src/a.py\n\nsrc/d:\nx\n", ["src/a.py", "src/d/x"]),
        ("ls *.py", "a.py\nb.py\n", ["a.py", "b.py"]),
        ("ls -R", ".:\na\nd\n\n./d:\nx\n", ["a", "d/x"]),
        ("ls -d */ a", "a\nsrc/\n", ["a"]),
        ("ls -C", "a  b\n", []),
        ("ls -m", "a, b\n", []),
        ("ls missing", "ls: cannot access 'missing': No such file or directory\n", []),
        ("ls --color", "\x1b[0m\x1b[01;34msrc\x1b[0m\na\n", ["src", "a"]),
        ("grep -n x a.py", "3:x\n", ["a.py"]),
        ("grep -n x a.py", "", []),
        ("grep -n x a.py", "grep: a.py: No such file or directory\n", []),
        ("grep -n x a.py b.py", "a.py:3:x\nb.py:1:http://y:80:z\n", ["a.py", "b.py"]),
        ("grep -rn x .", "./a.py:3:x\n./a.py-4-b.py:5:c\n--\n./d/b:1:x\n", ["a.py", "d/b"]),
        ("grep -rn x .", "see https://a.b/c:80:\nversion 1.2.3:4: z\n", []),
        ("grep -r x src", "src/a.py:x = 1\nsrc/b.py-y\n", ["src/a.py"]),
        ("grep -rc x .", "./a.py:0\n./b.py:2\n", ["a.py", "b.py"]),
        ("grep -r x .", "grep: ./bin: binary file matches\n", ["bin"]),
        ("grep -r x .", "Binary file ./bin matches\n", ["bin"]),
        ("rg x", "a.py:x\nsrc/b.py:x\n", ["a.py", "src/b.py"]),
        ("rg -n --heading x", "a.py\n3:x\n4-y\n\nsrc/b.py\n1:x\n", ["a.py", "src/b.py"]),
        ("rg -l x", "https://x.y/a.py\na.py\n", ["a.py"]),
        ("rg --json x", '{"type":"begin"}\n', []),
        (
            "find . -name '*.py'",
            "./a.py\n./d/b.py\nfind: './x': Permission denied\n",
            ["a.py", "d/b.py"],
        ),
        ("find src", "src\nsrc/d\nsrc/d/a\n", ["src/d/a"]),
        ("find . -type d", "./src\n", []),
        ("find . -printf '%s %p\\n'", "12 ./a\n", []),
        ("find . -exec wc -l {} +", " 3 ./a\n", []),
        (
            "tree",
            ".\n├── a.py\n└── src\n    └── b c\n\n1 directory, 2 files\n",
            ["a.py", "src/b c"],
        ),
        (
            "tree src",
            "src\n|-- a\n`-- d\n    `-- b -> ../a\n",
            ["src/a", "src/d/b -> ../a", "src/d/b"],
        ),
        ("tree -d", ".\n└── src\n", []),
        (
            "git status -s",
            ' M a.py\nR  "o\\303\\251" -> n.py\n D gone\n?? new/\n?? "b c"\n',
            ["a.py", "n.py", "b c"],
        ),
        ("git -C sub status -s", " M a.py\n", ["sub/a.py"]),
        ("git log", "commit a1b2\n", []),
        ("echo a.py", "a.py\n", []),
        ("cat a.py", "/etc/passwd\n", []),
        ("curl https://x.y/a.py", "https://x.y/a.py\n", []),
    ],
)
def test_files_are_discovered_in_the_output(command: str, output: str, expected: list[str]) -> None:
    """003-R176, 003-A24: by the rules of each tool, relative to the folder listed."""
    assert discovered(command, output) == expected


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("gcc a.c", ("In file included from inc/b.h:3:5,\n                 from a.c:1:\n"
         "inc/c.h:9:1: error: x\na.c: In function 'f':\n"), ["inc/b.h", "a.c", "inc/c.h"]),
        ("clang a.c", "a.c:3:5: warning: see https://x.y:80: z\n", ["a.c"]),
        ("cargo build", "error[E0308]: x\n  --> src/main.rs:3:5\n   ::: src/l b.rs:1:1\n",
         ["src/main.rs", "src/l b.rs"]),
        ("npx tsc", "src/a.ts(3,5): error TS2322: x\nsrc/b.ts:3:5 - error TS1: y\n",
         ["src/a.ts", "src/b.ts"]),
        ("python3 x.py", 'Traceback:\n  File "/w/x.py", line 3, in f\n  File "<stdin>", line 1\n',
         ["x.py"]),
        ("python -m pytest", ("tests/test_a.py ..F [100%]\nFAILED tests/test_b.py::test_x - E\n"
         "src/a.py:12: ValueError\n"), ["tests/test_a.py", "tests/test_b.py"]),
        ("cd sub && pytest", "rootdir: /w, configfile: p.toml\nFAILED tests/t.py::x - E\n",
         ["tests/t.py"]),
        ("go build ./...", "# example.com/m\n./main.go:3:5: undefined: x\n", ["main.go"]),
        ("go run .", "goroutine 1:\nmain.f()\n\t/w/main.go:12 +0x1d\n", ["main.go"]),
        ("uv run mypy .", "a.py:3: error: x  [y]\nFound 1 error in 1 file\n", ["a.py"]),
        ("npx eslint .", "/w/src/a b.js\n  3:5  error  x  rule\n\n1 problem\n", ["src/a b.js"]),
        ("node x.js", "    at f (/w/x.js:3:5)\n    at node:internal/m:1:2\n", ["x.js"]),
        ("make", ("make[1]: Entering directory '/w/lib'\na.c:1:2: error: x\n"
         "make[1]: Leaving directory '/w/lib'\nb.c:1:2: error: x\n"), ["lib/a.c", "b.c"]),
    ],
)  # fmt: skip
def test_a_diagnostic_yields_its_file(command: str, output: str, expected: list[str]) -> None:
    """003-A24: and no URL, version or invented file."""
    assert discovered(command, output)[: len(expected)] == expected
    assert not [path for path in discovered(command, output) if "http" in path or "<" in path]


@pytest.mark.parametrize(
    ("line", "program", "directory", "picked"),
    [
        ("ls -la", "ls", "/w", False),
        ("cd src && ls", "ls", "/w/src", False),
        ("cd '/a b'; cd c && ls | head -5", "ls", "/a b/c", False),
        ("cd .. && ls", "ls", "/w/..", False),
        ("mkdir -p x && ls x 2>/dev/null", "ls", "/w", False),
        ("FOO=1 sudo env A=b timeout 5 ls", "ls", "/w", False),
        ("grep -rn x . | sort | head", "grep", "/w", True),
        ("find . | grep -v node_modules", "find", "/w", True),
        ("find . -print0 | xargs -0 -n 5 grep -n x", "grep", "/w", False),
        ("ls # cd x", "ls", "/w", False),
        ("/usr/bin/ls", "ls", "/w", False),
        ("ls > out; grep x y", "grep", "/w", False),
        ("grep x y || echo none", "grep", "/w", False),
        ("ls \\\n  -la", "ls", "/w", False),
    ],
)
def test_the_command_of_a_line_that_printed_the_output_is_identified(
    line: str,
    program: str,
    directory: str,
    picked: bool,  # noqa: FBT001
) -> None:
    """003-A24: paths are relative to where that command ran, not where the line started."""
    command = producing_command(line, directory="/w")

    assert command is not None
    assert (command.program, command.directory, command.picked) == (program, directory, picked)


@pytest.mark.parametrize(
    "line",
    [
        "ls a; ls b",
        "ls $(cat x)",
        "for f in *; do ls $f; done",
        "cd $HOME && ls",
        "cd - && ls",
        "(cd x; ls)",
        "ls | awk '{print $1}'",
        "ls | wc -l",
        "ls | grep -n x",
        "ls &",
        "cat <<EOF\nls\nEOF",
        "ls 'a",
        "ls `x`",
        "",
        "x=1",
    ],
)
def test_an_ambiguous_producer_yields_nothing(line: str) -> None:
    """003-A24: a guess could report files that were not in the output."""
    assert discover(line, directory="/w", output="a\nb\n") == ()


def test_a_filtered_listing_is_parsed_only_if_lines_are_independent() -> None:
    """003-A24: without its header a name is in no folder."""
    assert discovered("ls -R | grep a", "a\nab\n") == []
    assert discovered("tree | tail -2", "└── a\n") == []
    assert discovered("ls src | grep a", "a\nab\n") == ["src/a", "src/ab"]


def test_the_output_of_another_command_is_not_a_path() -> None:
    """003-A24: a script prints its own text among the names."""
    assert discovered("echo '--- files'; ls", "--- files\na\n") == ["a"]
    assert discovered("ls x || echo none", "none\n") == []


def test_columns_are_read_where_names_are_quoted() -> None:
    """003-A24: quotes distinguish a space in a name from one between names."""
    output = "'a b'   c.py  \"it's\"\n d\n"

    assert discovered("ls -C --quoting-style=shell-escape", output) == ["a b", "c.py", "it's", "d"]


def test_short_status_paths_are_from_where_the_command_ran() -> None:
    """003-A24: they are not relative to the top of the repository."""
    assert discovered("cd src && git status -s", " M a\n") == ["src/a"]


def test_paths_are_returned_once_in_order() -> None:
    """003-R178: the order of a listing is the order of the session's index."""
    assert discovered("grep -n x b a", "b:1:x\na:1:x\nb:2:x\n") == ["b", "a"]


def test_a_command_may_be_an_argument_list() -> None:
    """003-A24: then no shell expansion takes place."""
    assert discover(["ls", "*"], directory="/w", output="a\n") == ("/w/*/a",)


def test_a_relative_directory_is_refused() -> None:
    """003-A24: names relative to an unknown folder are not paths."""
    with pytest.raises(Incorrect, match="is not absolute"):
        discover("ls", directory="w", output="a\n")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("gcc a.c", " " * 100_000),
        ("gcc a.c", "a" * 200_000 + ":1"),
        ("npm test", "at " + "(" * 50_000),
        ("grep -rn x .", "./" + "a-1-" * 20_000 + ":1:"),
        ("grep -r x .", "./" + "a-" * 50_000 + ":"),
        ("ls -l", "-rw-r--r-- 1 " + "a " * 50_000),
        ("tree", "│   " * 30_000 + "└── x"),
        ("ls --quoting-style=shell-escape", "'" * 50_001),
        ("git status", "\trenamed: " + " -> " * 20_000),
        ("find *", "/" * 50_000),
    ],
)
def test_hostile_output_is_parsed_in_bounded_time(command: str, output: str) -> None:
    """003-A24: a tool may print anything, and the turn waits for the parser."""
    assert discover(command, directory="/w", output=output) is not None
