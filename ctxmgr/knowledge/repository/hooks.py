"""The hooks for a person's own commits: checks before, the index after. Writes files.

Hooks run only when the person runs git; our own commits are checked without them. A hook that is
there already is kept beside ours and runs first.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from ctxmgr.knowledge.repository.git import Git

MARK: Final = "# Installed by `ctxmgr knowledge init`."
BEFORE: Final = ".before-ctxmgr"
"""The end of the name of a hook that was there before."""

_SCRIPT: Final = """\
#!/bin/sh
{mark} {about}
before="$0{before}"
if [ -x "$before" ]; then "$before" "$@" || exit $?; fi
ctxmgr={program}
[ -x "$ctxmgr" ] || ctxmgr=$(command -v ctxmgr) || {{
  echo "ctxmgr is not installed here: {missing}" >&2
  exit 0
}}
{command}
"""

_HOOKS: Final = {
    "pre-commit": (
        "Checks the notes that are staged.",
        "the notes were not checked",
        'exec "$ctxmgr" knowledge check --staged',
    ),
    "post-commit": (
        "Updates the search index in the background.",
        "the search index is updated later",
        '("$ctxmgr" knowledge indexed >/dev/null 2>&1 </dev/null &)',
    ),
}


async def install_hooks(git: Git) -> list[str]:
    """Install the hooks; returns what the person should know."""
    local = (await git.run("config", "--local", "--get", "core.hooksPath")).text.strip()
    shared = (await git.run("config", "--global", "--get", "core.hooksPath")).text.strip()
    if local or shared:
        return [_elsewhere(local or shared)]
    folder = await git.git_dir() / "hooks"
    folder.mkdir(exist_ok=True)
    remarks = []
    for name, (about, missing, command) in _HOOKS.items():
        hook = folder / name
        script = _SCRIPT.format(
            mark=MARK,
            about=about,
            before=BEFORE,
            program=shlex.quote(str(_program())),
            missing=missing,
            command=command,
        )
        if hook.is_symlink() or (hook.exists() and MARK not in _text(hook)):
            kept = folder / f"{name}{BEFORE}"
            if kept.exists():
                remarks.append(f"the hook {name} is left as it is: {kept.name} exists already")
                continue
            hook.rename(kept)
            remarks.append(f"your hook {name} is kept as {kept.name} and runs first")
        temporary = folder / f"{name}.{os.getpid()}.tmp"
        temporary.write_text(script, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(hook)
    return remarks


def _elsewhere(folder: str) -> str:
    return (
        f"core.hooksPath is {folder}, so no hooks were installed: call `ctxmgr knowledge check"
        " --staged` in your own pre-commit hook"
    )


def _program() -> Path:
    return Path(sys.executable).parent / "ctxmgr"


def _text(hook: Path) -> str:
    return hook.read_bytes()[:65_536].decode(errors="replace")
