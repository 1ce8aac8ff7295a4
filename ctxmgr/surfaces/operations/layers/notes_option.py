"""The option ``--folder`` of the commands that work on notes. No I/O."""

from pathlib import Path
from typing import Annotated, Final

from ctxmgr.surfaces.operation import Param

NOTES_FOLDER: Final = Param(
    "The folder with the notes; default: the setting, or the one that you are in.",
    metavar="DIR",
    local=True,
    here=True,
)
NotesOption = Annotated[Path | None, NOTES_FOLDER]
