"""The program ``ctxmgr``: a hook runs without the command line, everything else with it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process."""
    if sys.argv[1:2] == ["hook"]:
        from ctxmgr.integrations.agents.hook_process import run_hook

        code = run_hook(sys.argv[2:])
        if code is not None:
            sys.exit(code)
    from ctxmgr.surfaces.terminal.cli import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
