"""Open ``log.sqlite``, which holds the tail and all small tables of the layer. Touches the file.

Tags, windows and compressed records are in the same file as the log, so that one transaction can
change both and foreign keys hold.
"""

from pathlib import Path
from typing import Final

from ctxmgr.core.private_files import make_private_folder
from ctxmgr.stores.layer_file import LayerFile, LayerLayout

FILE: Final = "log.sqlite"

_LAYOUT: Final = LayerLayout(
    application_id=0x63747865,  # ``ctxe``
    migrations=Path(__file__).parent / "sql",
    what="experience log",
)


def open_log_file(folder: Path, *, create: bool = True) -> LayerFile:
    """Open the file in the folder of an experience log; ``NotFound`` if it may not be created."""
    if create:
        make_private_folder(folder)
    return LayerFile.open(folder / FILE, _LAYOUT, create=create)
