"""``ctxmgr completion``: the completion script of a shell. No I/O."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal

from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App


PROGRAM: Final = "ctxmgr"
VARIABLE: Final = "_CTXMGR_COMPLETE"
"""The environment variable with which the script requests completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionScript:
    shell: str
    script: str = field(repr=False)


async def completion(
    _app: "App", shell: Annotated[Literal["bash", "zsh", "fish"], Param("Which shell.")]
) -> CompletionScript:
    """Print the completion script for a shell.

    bash reads it from ~/.bash_completion, fish from ~/.config/fish/completions/ctxmgr.fish, and zsh
    from `eval "$(ctxmgr completion zsh)"` in ~/.zshrc.
    """
    from click import Command
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click completes for all three"
    source = kind(Command(PROGRAM), {}, PROGRAM, VARIABLE).source()
    return CompletionScript(shell=shell, script=source)
