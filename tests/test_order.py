"""The list of slow tests names files and folders that exist."""

from tests.components import ROOT
from tests.order import SLOWEST_FIRST


def test_everything_that_starts_first_exists() -> None:
    """After a renaming the entry would have no effect, and the run would take longer."""
    assert [part for part in SLOWEST_FIRST if not (ROOT / part).exists()] == []
