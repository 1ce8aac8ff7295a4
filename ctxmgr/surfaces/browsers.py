"""The inspector, opened for whoever started the server. Starts the person's browser.

Only for a person at a terminal with a screen: where there is none, Python would start a browser of
text in the terminal that the server writes to.
"""

import logging
import os
import sys
import webbrowser
from collections.abc import Mapping
from threading import Thread
from typing import Final

_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY")

logger = logging.getLogger(__name__)


def sees_a_browser(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether somebody is there to look at a page."""
    has_screen = sys.platform == "darwin" or any(environment.get(each) for each in _SCREENS)
    return has_screen and sys.stdout.isatty()


def open_page(url: str) -> None:
    """Open a page and wait for nothing: some browsers end only when the person closes them."""
    Thread(target=_open, args=(url,), daemon=True).start()


def _open(url: str) -> None:
    if not webbrowser.open(url):  # no failure of the server
        logger.warning("no browser could be started: open %s", url)
