"""Report lenses that fail. Logs when one begins to fail, and when it works again.

A stream asks its lenses several times a second, so that a message for each failure would hide
everything else.
"""

import logging
from collections.abc import Mapping

from ctxmgr.experience.lenses.lens import LensReading

_log = logging.getLogger(__name__)


class LensFailures:
    """Which lenses fail at present."""

    def __init__(self) -> None:
        self._failing: dict[str, str] = {}

    @property
    def failing(self) -> Mapping[str, str]:
        """The lenses whose last reading is missing, and what was wrong."""
        return dict(self._failing)

    def note(self, reading: LensReading) -> LensReading:
        """Report what changed since the last reading; return the reading."""
        for name, error in reading.failed.items():
            if name not in self._failing:
                _log.warning("the lens %s fails, and its scores are missing: %s", name, error)
        for name in self._failing.keys() - reading.failed.keys():
            _log.warning("the lens %s works again", name)
        self._failing = dict(reading.failed)
        return reading
