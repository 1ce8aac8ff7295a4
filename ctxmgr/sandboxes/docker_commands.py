"""The command lines of a Docker sandbox, and the scripts that run in its container. Pure.

    docker run -i …    the container; its first process lives as long as our end of the pipe
    docker exec …      a command in it

A command is marked by a variable, and what carries the mark is killed when the command ends. What
clears its environment and detaches itself gets away from that, and lives until the container ends.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ctxmgr.core.sandbox import Bind, Limits
from ctxmgr.errors import Incorrect

LABEL: Final = "ctxmgr.sandbox"
MARK: Final = "CTXMGR_COMMAND"
READY: Final = b"ready\n"

FIRST: Final = "echo ready; exec 3<&0; cat <&3 >/dev/null & wait"
"""The first process: it ends when the client closes the pipe or dies, and collects the dead."""

SWEEP: Final = f"""\
for ((round = 0; round < 9; round++)); do
  found=
  for file in /proc/[0-9]*/environ; do
    while IFS= read -r -d '' each; do
      if [[ $each == "{MARK}=$mark" ]]; then kill -9 "${{file//[!0-9]/}}"; found=1; fi
    done <"$file"
  done
  [[ $found ]] || break
done
"""
"""Of bash's own words alone: where a command has used up all processes, no other can be started."""

COMMAND: Final = f"""\
exec 2>&1
mark=$1
cd -- "$2" || exit 126
shift 2
exec 3>&1 >/dev/null 2>&1
env {MARK}="$mark" "$@" >&3 2>&3 3>&-
status=$?
{SWEEP}
exit $status
"""
"""Output and errors are one stream inside: Docker would carry them apart and out of order."""

END: Final = f"exec 2>/dev/null\nmark=$1\n{SWEEP}"

ENVIRONMENT: Final[Mapping[str, str]] = {
    "HOME": "/tmp",  # noqa: S108 (the container's own)
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "USER": "agent",
}


def run_line(
    program: str,
    *,
    name: str,
    image: str,
    binds: Sequence[Bind],
    limits: Limits,
    network: bool,
    user: str,
) -> list[str]:
    """Return what starts the container."""
    return [
        *(program, "run", "--interactive", "--rm", "--pull", "never"),
        *("--name", name, "--label", LABEL, "--hostname", "sandbox", "--user", user),
        *("--network", "bridge" if network else "none"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
        *("--pids-limit", str(limits.processes)),
        *("--ulimit", f"fsize={limits.file_bytes}", "--ulimit", "core=0"),
        *(word for bind in binds for word in ("--mount", _mount(bind))),
        *("--workdir", "/", "--entrypoint", "/bin/sh", image, "-c", FIRST),
    ]


def command_line(
    program: str,
    argv: Sequence[str],
    *,
    name: str,
    mark: str,
    cwd: str,
    env: Mapping[str, str],
    has_input: bool,
) -> list[str]:
    """Return what runs a command in the container."""
    variables = {**ENVIRONMENT, **env}
    return [
        *(program, "exec", *(("--interactive",) if has_input else ())),
        *(word for each, value in variables.items() for word in ("--env", f"{each}={value}")),
        *(name, "bash", "-c", COMMAND, "bash", mark, cwd),
        *argv,
    ]


def end_line(program: str, *, name: str, mark: str) -> list[str]:
    """Return what kills a command in the container."""
    return [program, "exec", name, "bash", "-c", END, "bash", mark]


def _mount(bind: Bind) -> str:
    source, target = bind.mapping.canonical_prefix, bind.mapping.agent_prefix
    for path in (source, target):
        if '"' in path or "\n" in path:
            raise Incorrect(f"Docker cannot mount {path!r:.200}")
    fields = ["type=bind", f"source={source}", f"target={target}"]
    fields += [] if bind.writable else ["readonly"]
    return ",".join(f'"{field}"' for field in fields)  # its fields are those of a CSV line
