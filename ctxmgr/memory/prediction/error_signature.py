"""What two error messages have in common when they are the same error. Pure.

Numbers, addresses, quoted values and folders change from run to run; what is left is the signature:
``ConnectionError: pool 'api' timed out after 30s`` → ``ConnectionError: pool … timed out after #``.
"""

import re
from functools import lru_cache
from typing import Final

SIGNATURE_CHARS_MAX: Final = 300
SIGNATURES_CACHED: Final = 16_384
"""Messages whose signature is remembered: fixes are compared with every error."""
MESSAGE_CHARS_MAX: Final = 4_000
"""Characters of a message that are looked at, from its end: the cause is in the last line."""

_ERROR_LINE: Final = re.compile(
    r"^\s*(?:\w+\.)*\w*(?:Error|Exception|Warning|Failure|FAILED)\b.*$", re.MULTILINE
)
_QUOTED: Final = re.compile(r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`")
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8,}\b")
_FOLDER: Final = re.compile(r"(?:[\w.-]*/)+")
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")


@lru_cache(maxsize=SIGNATURES_CACHED)
def error_signature(message: str) -> str:
    """Return the signature of an error message; empty if there is no text."""
    text = message[-MESSAGE_CHARS_MAX:].strip()
    lines = _ERROR_LINE.findall(text)
    line = lines[-1] if lines else (text.splitlines() or [""])[-1]
    for pattern, left in ((_QUOTED, "…"), (_ADDRESS, "#"), (_FOLDER, ""), (_NUMBER, "#")):
        line = pattern.sub(left, line)
    return " ".join(line.split())[:SIGNATURE_CHARS_MAX]
