"""The order in which test files start: slow ones first, so that none is left at the end. Pure."""

from typing import Final

SLOWEST_FIRST: Final = (
    "tests/containers",
    "tests/postgres",
    "tests/stores/xtdb/test_contract.py",
    "tests/journeys",
    "tests/surfaces/http",
    "tests/stores",
    "tests/xtdb",
    "tests/test_wheel.py",
    "tests/sandboxes",
    "tests/surfaces",
    "tests/integrations",
    "tests/examples",
)
"""Files and folders in the order in which they start; all others follow, and are short."""


def place(nodeid: str) -> int:
    """Return the position of a test's file; slow files have small numbers."""
    places = (place for place, part in enumerate(SLOWEST_FIRST) if nodeid.startswith(part))
    return next(places, len(SLOWEST_FIRST))
