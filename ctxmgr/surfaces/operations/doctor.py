"""``ctxmgr doctor``: the installation and its settings. Imports the checks when it runs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.surfaces.views.store.diagnosis import Diagnosis


async def doctor(app: "App") -> "Diagnosis":
    """Check what is installed and works, and list the settings."""
    from ctxmgr.surfaces.operations.doctor_checks import examine

    return await examine(app.loaded)
