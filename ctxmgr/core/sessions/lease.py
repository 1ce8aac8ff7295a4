"""x."""

from typing import Final

LEASE: Final = "lease"
