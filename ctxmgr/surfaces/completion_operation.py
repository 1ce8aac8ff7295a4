"""Shell completion: the script that a shell reads once. Writes it to standard output."""

from typing import TYPE_CHECKING, Annotated, Final, Literal

from ctxmgr.surfaces.catalogue import Param

if TYPE_CHECKING:
    from ctxmgr.app import App

PROGRAM: Final = "ctxmgr"
VARIABLE: Final = "_CTXMGR_COMPLETE"
"""By which the script asks the program for words."""


async def completion(
    app: "App", shell: Annotated[Literal["bash", "zsh", "fish"], Param("Which shell.")]
) -> None:
    """Print the script that lets a shell complete commands and options.

    bash reads it from ~/.bash_completion, fish from ~/.config/fish/completions/ctxmgr.fish, and zsh
    by `eval "$(ctxmgr completion zsh)"` in ~/.zshrc.
    """
    from click import Command
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click completes for all three"
    app.write(kind(Command(PROGRAM), {}, PROGRAM, VARIABLE).source())
