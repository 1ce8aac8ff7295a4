"""Names in text that somebody may use again: identifiers, paths, numbers. Pure."""

import re
from typing import Final

LENGTH_MIN: Final = 6
"""Characters of a name: shorter ones are mostly words, and stand everywhere anyway."""

IDENTIFIER: Final = re.compile(rf"[A-Za-z_][\w./-]{{{LENGTH_MIN - 1},}}|\b\d{{3,}}\b")


def identifiers(text: str) -> tuple[str, ...]:
    """Name every identifier once, in the order of the text."""
    return tuple(dict.fromkeys(IDENTIFIER.findall(text)))
