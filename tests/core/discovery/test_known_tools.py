"""Which files a call uses, by the names that harnesses give to tools and arguments."""

from typing import Any

import pytest

from ctxmgr.core.discovery.discover import discover
from ctxmgr.core.discovery.known_tools import OutputKind, Trace, output_kind, trace_of

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-old
+*** Delete File: not/this
*** Add File: /w/new.md
+text
*** Delete File: gone.txt
*** Update File: from.py
*** Move to: to.py
*** End Patch
"""


@pytest.mark.parametrize(
    ("tool", "args", "trace"),
    [
        ("Read", {"file_path": "/w/a"}, Trace(reads=("/w/a",))),
        ("read_file", {"target_file": "a"}, Trace(reads=("/w/a",))),
        ("Write", {"file_path": "/w/a"}, Trace(writes=("/w/a",))),
        ("MultiEdit", {"file_path": "/w/a"}, Trace(writes=("/w/a",))),
        ("NotebookEdit", {"notebook_path": "/w/a"}, Trace(writes=("/w/a",))),
        ("write_to_file", {"path": "a"}, Trace(writes=("/w/a",))),
        (
            "str_replace_based_edit_tool",
            {"command": "view", "path": "/w/a"},
            Trace(reads=("/w/a",)),
        ),
        (
            "str_replace_based_edit_tool",
            {"command": "str_replace", "path": "/w/a"},
            Trace(writes=("/w/a",)),
        ),
        ("str_replace_editor", {"command": "create", "path": "/w/a"}, Trace(writes=("/w/a",))),
        (
            "apply_patch",
            {"input": PATCH},
            Trace(writes=("/w/src/a.py", "/w/new.md", "/w/gone.txt", "/w/from.py", "/w/to.py")),
        ),
        ("apply_patch", {"input": ["no", "text"]}, Trace()),
        ("execute_bash", {"command": "ls"}, Trace(command="ls", directory="/w")),
        ("run_shell_command", {"command": "ls"}, Trace(command="ls", directory="/w")),
        ("send_mail", {"path": "/w/a"}, Trace()),
    ],
)
def test_the_files_of_a_call_are_known_by_its_names(
    tool: str, args: dict[str, Any], trace: Trace
) -> None:
    """003-R108, 003-R145: a harness names its tools as it likes, and most names are common."""
    assert trace_of(tool, args, directory="/w") == trace


@pytest.mark.parametrize(
    ("tool", "args", "output", "paths"),
    [
        ("Glob", {"pattern": "**/*.py"}, "/w/a.py\n/w/src/b.py\n", ("/w/a.py", "/w/src/b.py")),
        ("Glob", {"pattern": "*.x"}, "No files found\n", ()),
        ("list_dir", {"path": "src"}, "b.py\nsub/\n", ("/w/src/b.py",)),
    ],
)
def test_the_files_of_a_listing_are_known_by_its_output(
    tool: str, args: dict[str, Any], output: str, paths: tuple[str, ...]
) -> None:
    """003-R176: listings of other harnesses name files as ``ls`` and ``find`` do."""
    trace = trace_of(tool, args, directory="/w")
    assert trace.command is not None
    assert trace.directory is not None

    assert discover(trace.command, directory=trace.directory, output=output) == paths


def test_a_failed_call_used_no_file_of_its_arguments() -> None:
    """003-A24: it read and wrote nothing that is known."""
    trace = trace_of("apply_patch", {"input": PATCH}, directory="/w").as_failed()

    assert (trace.reads, trace.writes, trace.failed) == ((), (), True)


READ, SEARCH, WRITE, RUN = (
    OutputKind.READ,
    OutputKind.SEARCH,
    OutputKind.WRITE,
    OutputKind.RUN,
)


@pytest.mark.parametrize(
    ("tool", "args", "kind"),
    [
        ("shell", {"command": ["bash", "-lc", "cat src/a.py"]}, READ),
        ("shell", {"command": ["bash", "-lc", "sed -n '1,80p' a.py"]}, READ),
        ("shell", {"command": ["bash", "-lc", "pytest -q"]}, RUN),
        ("exec_command", {"cmd": "/bin/zsh -c 'nl -ba a.py'"}, READ),
        ("execute_bash", {"command": "cd /w && cat a.py"}, READ),
        ("execute_bash", {"command": "head -40 a.py"}, READ),
        ("execute_bash", {"command": "grep -rn name ."}, SEARCH),
        ("execute_bash", {"command": "echo a.py; cat a.py"}, READ),
        ("execute_bash", {"command": "cat a.py | grep name"}, SEARCH),
        ("execute_bash", {"command": "cat > a.py <<'E'\nx\nE"}, RUN),
        ("execute_bash", {"command": "echo done"}, RUN),
        ("str_replace_editor", {"command": "view", "path": "/w/a.py"}, READ),
        ("str_replace_editor", {"command": "str_replace", "path": "/w/a.py"}, WRITE),
        ("read", {"filePath": "/w/a.py", "offset": 40}, READ),
        ("Read", {"file_path": "/w/a.py"}, READ),
        ("apply_patch", {"input": PATCH}, WRITE),
        ("search_files", {"regex": "name"}, SEARCH),
        ("think", {"thought": "cat a.py"}, OutputKind.OTHER),
    ],
)
def test_the_kind_of_an_output_is_known_for_the_tools_of_other_harnesses(
    tool: str, args: dict[str, Any], kind: OutputKind
) -> None:
    """What was read is shown whole in the next prompt, with whichever tool it was read."""
    assert output_kind(tool, args) is kind
