"""Shell completion: the scripts, and the completions that the program returns."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.components import ROOT

Run = Callable[..., Result]

ASKED = {
    "bash": ("bash_complete", {"COMP_WORDS": "ctxmgr deac", "COMP_CWORD": "1"}, "plain,deactivate"),
    "zsh": ("zsh_complete", {"COMP_WORDS": "ctxmgr deac", "COMP_CWORD": "1"}, "deactivate"),
    "fish": ("fish_complete", {"COMP_WORDS": "ctxmgr deac", "COMP_CWORD": "deac"}, "deactivate"),
}


@pytest.mark.parametrize("shell", sorted(ASKED))
def test_a_script_is_printed_for_each_shell(ctxmgr: Run, shell: str) -> None:
    """One line in the shell's configuration is enough."""
    printed = ctxmgr("completion", shell)

    assert printed.exit_code == 0, printed.stderr
    assert f"_CTXMGR_COMPLETE={shell}_complete" in printed.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=printed.stdout.encode(), check=False)
        assert checked.returncode == 0


@pytest.mark.parametrize("shell", sorted(ASKED))
def test_commands_are_completed_for_the_scripts_request(shell: str) -> None:
    """The script and the program must use the same variable."""
    instruction, words, expected = ASKED[shell]
    env = {**os.environ, "_CTXMGR_COMPLETE": instruction, **words}
    script = "from ctxmgr.surfaces.terminal.cli import main; main()"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, env=env, text=True
    )

    assert expected in done.stdout
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_accepts_the_script_and_offers_commands(ctxmgr: Run, tmp_path: Path) -> None:
    """The script works in a real shell with the installed program."""
    program = tmp_path / "ctxmgr"
    program.write_text(
        f"#!{sys.executable}\nfrom ctxmgr.surfaces.terminal.cli import main\nmain()\n"
    )
    program.chmod(0o755)
    ask = "COMP_WORDS=(ctxmgr deac); COMP_CWORD=1; _ctxmgr_completion ctxmgr"
    script = f'{ctxmgr("completion", "bash").stdout}\n{ask}; echo "${{COMPREPLY[@]}}"'

    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=False, text=True, env=env
    )

    assert done.stdout.split() == ["deactivate"], done.stderr
