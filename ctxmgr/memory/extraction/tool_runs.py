"""What a tool call did: the command, the files it changed, the error it ended with. Pure.

Harnesses name tools and arguments differently; the common names are listed here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.memory.extraction.exchange import ToolRun

OUTPUT_CHARS_READ: Final = 20_000
"""At the beginning and at the end of an output: an error is named in one of the two."""
CHANGE_CHARS_MAX: Final = 160
"""Of the text that a change removed or added."""
COMMAND_CHARS_MAX: Final = 4_000
WRITTEN: Final = "written"
"""The summary of a file that was written as a whole."""
REWRITTEN: Final = "rewritten by a script"
PATCHED: Final = "patched"
ERROR_CHARS_MAX: Final = 300

_PATHS: Final = (
    "path",
    "file_path",
    "filename",
    "file",
    "filePath",
    "notebook_path",
    "target_file",
)
_COMMANDS: Final = ("command", "cmd")
_OLD: Final = ("oldText", "old_string", "old_str", "old_text", "old", "search")
_NEW: Final = ("newText", "new_string", "new_str", "new_text", "new", "replace")
_CONTENT: Final = ("content", "file_text", "text")
_READERS: Final = frozenset({"read", "read_file", "view", "view_file", "cat", "ls", "glob", "grep"})
RECALLING: Final = frozenset(
    {"recall", "expand", "remember", "memory", "search_memory", "activate", "deactivate"}
)
"""Tools whose output is something that was known before."""

_LOOKING: Final = frozenset(
    {"awk", "cat", "cut", "diff", "du", "echo", "egrep", "env", "fgrep"}
    | {"file", "find", "git", "grep", "head", "jq", "less", "ls", "nl"}
    | {"pgrep", "ps", "pwd", "rg", "sed", "sleep", "sort", "stat", "tail"}
    | {"test", "tree", "type", "wc", "which", "kill", "pkill", "curl", "wget"}
    | {"rm", "mv", "cp", "mkdir", "touch", "chmod", "code", "open", "man"}
    | {"printf", "true"}
)
"""Commands that look something up or set something up: that they find nothing is no error."""

_SETTING_UP: Final = re.compile(
    r"^(?:(?:cd|export|source|set|\.|unset)\b[^&;|\n]*(?:&&|;|\n)\s*|[A-Z_][A-Z0-9_]*=\S*\s+"
    r"|sudo\s+|time\s+|timeout\s+\S+\s+|env\s+)+"
)
_SHORTENED: Final = re.compile(
    r"(?<!\s)(?:\s*+(?:2>&1|2>/dev/null|\|\s*+(?:tail|head|cat)\b[^|&;]*"
    r"|(?:;\s*+)?echo\s+\S*\$\?\S*))+\s*+$"
)
_EXIT: Final = re.compile(
    r"<returncode>\s*(-?\d+)\s*</returncode>"
    r"|(?:exit(?:ed)?(?: with)?(?: status| code)?|return ?code)[:=]?\s*(-?\d+)",
    re.IGNORECASE,
)
_ERRORS: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?P<error>(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Failure|Interrupt)\b.*)$",
        r"^(?P<error>.*\berror(?:\[E\d+\]| TS\d+)?:\s.*)$",
        r"^E\s{2,}(?P<error>\S.*)$",
        r"^(?P<error>FAILED \S+.*)$",
        r"^(?P<error>(?:npm ERR!|fatal:|Error:|ERROR:?|panic:)\s.*)$",
        r"^(?P<error>.*(?:command not found|No such file or directory|Permission denied).*)$",
        r"^(?P<error>[^\S\n]*(?:[✗✘×]|FAIL|WRONG|not ok)\s.*)$",
    )
)
_REDIRECTED: Final = re.compile(
    r"(?<![\d&<>=-])>>?\s*(?P<quote>['\"]?)(?P<path>[\w./~-]+)(?P=quote)"
)
_SED: Final = re.compile(r"\bsed\s+(?:-[\w.]+\s+)*(?:-\w*i\S*|--in-place\S*)\s+(?P<rest>[^&;|\n]+)")
_SED_SCRIPT: Final = re.compile(r"(?P<quote>['\"])(?P<script>.*?)(?P=quote)")
_PYTHON_WRITE: Final = re.compile(
    r"(?:open\(\s*['\"](?P<opened>[^'\"]+)['\"]\s*,\s*['\"][wa]|Path\(\s*['\"](?P<path>[^'\"]+)['\"]\s*\)"
    r"\.write_text)"
)
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (\S(?:.*\S)?)", re.MULTILINE)
_MOVED: Final = re.compile(r"\bgit\s+(?:checkout|restore|stash|revert|reset)\b")
_INSTALLED: Final = re.compile(
    r"\b(?:pip3?|uv pip|npm|pnpm|yarn|cargo|apt(?:-get)?|brew|gem|go)\s+(?:install|add|i|get)\b"
    r"[^&;|\n]*"
)
_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_NOT_FILES: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """What a tool call changed, in short."""

    path: str
    """Empty for what is not a file, such as an installed package."""
    summary: str


def command_of(run: ToolRun) -> str | None:
    """Return the command line of a call; None if it is not one of a shell."""
    command = _text(run.args, _COMMANDS)
    return None if command is None else command[:COMMAND_CHARS_MAX]


def same_command(command: str) -> str:
    """Return a command without what does not change what it checks."""
    text = " ".join(command.split()) if "\n" not in command.strip() else command.strip()
    text = _SETTING_UP.sub("", text)
    return _SHORTENED.sub("", text).strip()


def only_looks(command: str) -> bool:
    """Whether a command looks something up or prepares something, so that failing says little."""
    unquoted = _QUOTED.sub("''", same_command(command))
    parts = [part for part in re.split(r"&&|\|\||;|\n|\|", unquoted) if part.strip()]
    return all(part.split()[0].rsplit("/", maxsplit=1)[-1] in _LOOKING for part in parts)


def has_failed(run: ToolRun) -> bool:
    """Whether a call failed, as recorded or as its output says."""
    if not run.ok:
        return True
    ends = (run.output[:200], run.output[-200:])
    codes = [next(filter(None, each.groups())) for end in ends for each in _EXIT.finditer(end)]
    return any(code != "0" for code in codes)


def error_of(output: str) -> str | None:
    """Return the line that names the error, from the last traceback or the first message."""
    text = output
    if len(text) > 2 * OUTPUT_CHARS_READ:
        text = f"{text[:OUTPUT_CHARS_READ]}\n{text[-OUTPUT_CHARS_READ:]}"
    for number, pattern in enumerate(_ERRORS):
        found = [match["error"] for match in pattern.finditer(text)]
        if found:
            line = found[-1] if number == 0 else found[0]
            return " ".join(line.split())[:ERROR_CHARS_MAX]
    return None


def changes_of(run: ToolRun) -> tuple[RunChange, ...]:
    """Return what a call changed; nothing if it failed."""
    if has_failed(run):
        return ()
    if run.tool.lower() in _READERS or run.args.get("command") == "view":
        return ()
    command = command_of(run)
    path = _text(run.args, _PATHS)
    if path is not None:
        summary = _edit_summary(run.args)
        return () if summary is None else (RunChange(path=path, summary=summary),)
    patch = _text(run.args, ("input", "patch"))
    if patch is not None and _PATCHED.search(patch):
        return tuple(RunChange(path=each, summary=PATCHED) for each in _PATCHED.findall(patch))
    return () if command is None else tuple(_changes_of_command(command))


def changed_paths(runs: tuple[ToolRun, ...]) -> tuple[str, ...]:
    """Return the files that calls changed, each once, in order."""
    paths = [change.path for run in runs for change in changes_of(run) if change.path]
    return tuple(dict.fromkeys(paths))


def _changes_of_command(command: str) -> Iterator[RunChange]:
    for sed in _SED.finditer(command):
        script = _SED_SCRIPT.search(sed["rest"])
        path = sed["rest"].split()[-1].strip("'\"")
        if script is not None and script["script"].strip() and path:
            yield RunChange(path=path, summary=f"sed {_short(script['script'])}")
    for written in _REDIRECTED.finditer(command):
        if written["path"] not in _NOT_FILES and "." in written["path"].rsplit("/", 1)[-1]:
            yield RunChange(path=written["path"], summary=WRITTEN)
    for written in _PYTHON_WRITE.finditer(command):
        yield RunChange(path=written["opened"] or written["path"], summary=REWRITTEN)
    for installed in _INSTALLED.finditer(command):
        yield RunChange(path="", summary=_short(installed[0]))
    if _MOVED.search(command):
        yield RunChange(path="", summary=_short(same_command(command)))


def _edit_summary(args: Mapping[str, Any]) -> str | None:
    old, new = _text(args, _OLD), _text(args, _NEW)
    if old is not None and new is not None:
        removed, added = _difference(old, new)
        if not added:
            return f"removed `{removed}`"
        return f"`{removed}` became `{added}`" if removed else f"added `{added}`"
    edits = args.get("edits")
    if isinstance(edits, list):
        parts = [_edit_summary(edit) for edit in edits[:3] if isinstance(edit, Mapping)]
        return "; ".join(part for part in parts if part) or None
    return WRITTEN if _text(args, _CONTENT) is not None else None


def _difference(old: str, new: str) -> tuple[str, str]:
    """Return the lines that only one side has, in short."""
    before, after = old.splitlines(), new.splitlines()
    kept = frozenset(before) & frozenset(after)
    removed = [line.strip() for line in before if line not in kept and line.strip()]
    added = [line.strip() for line in after if line not in kept and line.strip()]
    return _short(" ⏎ ".join(removed)), _short(" ⏎ ".join(added))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CHANGE_CHARS_MAX else f"{line[: CHANGE_CHARS_MAX - 1]}…"


def _text(args: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = args.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            return " ".join(value)
    return None
