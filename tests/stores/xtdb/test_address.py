"""The URL of an XTDB store: its syntax, and that credentials stay hidden."""

import base64

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.stores.xtdb.address import NODES_MAX, read_address


@pytest.mark.parametrize(
    ("url", "nodes"),
    [
        ("xtdb+http://db", ["http://db:3000/_xtdb/"]),
        ("xtdb+http://127.0.0.1:3001/", ["http://127.0.0.1:3001/_xtdb/"]),
        ("xtdb+https://db", ["https://db:443/_xtdb/"]),
        ("xtdb+http://[::1]:3000", ["http://[::1]:3000/_xtdb/"]),
        ("xtdb+https://proxy/x/y/", ["https://proxy:443/x/y/_xtdb/"]),
        ("xtdb+http://a:1,b:2", ["http://a:1/_xtdb/", "http://b:2/_xtdb/"]),
        ("xtdb+http://a,xtdb+http://b", ["http://a:3000/_xtdb/", "http://b:3000/_xtdb/"]),
        ("xtdb+http://a,b/p", ["http://a:3000/p/_xtdb/", "http://b:3000/p/_xtdb/"]),
    ],
)
def test_an_address_may_list_several_nodes(url: str, nodes: list[str]) -> None:
    """Several machines can share one database under one URL (003-R006)."""
    assert list(read_address(url).nodes) == nodes


@pytest.mark.parametrize(
    "url",
    [
        "",
        "xtdb://host",
        "http://host:3000",
        "xtdb+http://",
        "xtdb+http://:3000",
        "xtdb+http://host:port",
        "xtdb+http://host:0",
        "xtdb+http://host:70000",
        "xtdb+http://[::1",
        "xtdb+http://host?x=1",
        "xtdb+http://host#x",
        "xtdb+http://a/p,b/q",
        "xtdb+http://a,,b",
        "xtdb+http://" + ",".join(f"n{number}" for number in range(NODES_MAX + 1)),
        "xtdb+http://one:secret@a,two:secret@b",
        "xtdb+http://to ken@a",
    ],
)
def test_the_error_for_an_invalid_address_hides_its_secret(url: str) -> None:
    """A mistyped URL is reported before any connection is tried (003-R198)."""
    with pytest.raises(Incorrect) as refused:
        read_address(url)

    assert "secret" not in str(refused.value)


def test_a_user_and_password_become_a_basic_header() -> None:
    """Servers behind a proxy may require a password (003-R198)."""
    address = read_address("xtdb+https://ann:p%40ss%2Cword@db")

    assert address.authorization is not None
    kind, _, pair = address.authorization.partition(" ")
    assert (kind, base64.b64decode(pair)) == ("Basic", b"ann:p@ss,word")


@pytest.mark.parametrize("given", ["url", "argument"])
def test_a_token_becomes_a_bearer_header(given: str) -> None:
    """The server itself checks a token (003-R198)."""
    if given == "url":
        address = read_address("xtdb+http://s3cret@db")
    else:
        address = read_address("xtdb+http://db", token="s3cret")

    assert address.authorization == "Bearer s3cret"


def test_credentials_are_never_shown() -> None:
    """URLs end up in logs and bug reports (003-R198)."""
    address = read_address("xtdb+http://ann:s3cret@a:1,b:2")

    assert address.shown == "xtdb+http://a:1,b:2"
    assert "s3cret" not in repr(address)
    assert all("s3cret" not in node for node in address.nodes)


def test_two_sets_of_credentials_are_refused() -> None:
    """It would be unclear which one is used (003-R198)."""
    with pytest.raises(Incorrect, match="credentials"):
        read_address("xtdb+http://ann:s3cret@db", token="other")
