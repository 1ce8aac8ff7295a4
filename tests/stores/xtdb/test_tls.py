"""The XTDB store trusts only certificates of configured authorities."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from ctxmgr.errors import Unavailable
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.stores.xtdb.scripted_server import ScriptedServer


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def server(authority: trustme.CA) -> AsyncIterator[ScriptedServer]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with ScriptedServer(tls=tls) as server:
        yield server


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


async def test_a_certificate_of_an_unknown_authority_is_refused(server: ScriptedServer) -> None:
    """A man in the middle could read every session (003-R198)."""
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        await XtdbStore.open(server.url, token="s3cret")

    assert server.requests == []


async def test_a_certificate_of_the_given_authority_is_accepted(
    server: ScriptedServer, ca_file: Path
) -> None:
    """Companies have private authorities (003-R198)."""
    async with await XtdbStore.open(server.url, ca_file=ca_file):
        pass

    assert [request.path for request in server.requests] == ["status"]


async def test_a_certificate_for_another_host_is_refused(
    authority: trustme.CA, ca_file: Path
) -> None:
    """A valid certificate for another host proves nothing (003-R198)."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("elsewhere.example").configure_cert(tls)

    async with ScriptedServer(tls=tls) as server:
        with pytest.raises(Unavailable, match=r"(?i)certificate"):
            await XtdbStore.open(server.url, ca_file=ca_file)


async def test_verification_can_be_disabled_explicitly(server: ScriptedServer) -> None:
    """For local experiments only, so it is never the default (003-R198)."""
    async with await XtdbStore.open(server.url, verify=False):
        pass
