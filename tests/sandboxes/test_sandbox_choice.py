"""Which sandbox is used."""

import pytest

from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.sandboxes.choice import choose, installed


@pytest.mark.parametrize(
    ("name", "available", "chosen"),
    [
        (None, {"bubblewrap", "docker"}, "bubblewrap"),
        (None, {"docker"}, "docker"),
        ("docker", {"bubblewrap", "docker"}, "docker"),
        ("host", set(), "host"),
    ],
)
def test_what_is_asked_for_is_chosen_or_the_best(
    name: str | None, available: set[str], chosen: str
) -> None:
    """Bubblewrap needs no daemon, no image and no rights."""
    assert choose(name, available) == chosen


@pytest.mark.parametrize("name", [None, "docker"])
def test_the_host_is_never_a_fallback(name: str | None) -> None:
    """To run an agent without walls is a decision; the message says how to take it."""
    with pytest.raises(Unavailable, match="'host', which isolates nothing"):
        choose(name, set())


def test_a_sandbox_that_nobody_knows_is_refused() -> None:
    """The message names those that are known."""
    with pytest.raises(Incorrect, match="bubblewrap, docker, host"):
        choose("chroot", installed())
