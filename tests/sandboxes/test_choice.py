"""Which sandbox is used."""

import pytest

from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.sandboxes.start import choose, installed


@pytest.mark.parametrize(
    ("name", "available", "chosen"),
    [
        (None, {"bubblewrap", "docker"}, "bubblewrap"),
        (None, {"docker"}, "docker"),
        ("docker", {"bubblewrap", "docker"}, "docker"),
        ("host", set(), "host"),
    ],
)
def test_the_selected_or_best_sandbox_is_chosen(
    name: str | None, available: set[str], chosen: str
) -> None:
    """Bubblewrap needs no daemon, no image and no privileges."""
    assert choose(name, available) == chosen


@pytest.mark.parametrize("name", [None, "docker"])
def test_the_host_is_never_a_fallback(name: str | None) -> None:
    """To run an agent without isolation is a decision; the message says how."""
    with pytest.raises(Unavailable, match="'host', which isolates nothing"):
        choose(name, set())


def test_an_unknown_sandbox_is_rejected() -> None:
    """The message lists the known ones."""
    with pytest.raises(Incorrect, match="bubblewrap, docker, host"):
        choose("chroot", installed())
