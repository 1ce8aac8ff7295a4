"""Access control of the HTTP API: hosts, origins, tokens, scopes, rates."""

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result

import ctxmgr as package
from ctxmgr.errors import Denied, Incorrect, NotFound, Unavailable
from ctxmgr.surfaces.access_tokens import (
    REVOKED_FILE,
    SECRET_FILE,
    Grant,
    Keys,
    RevokedTokens,
    load_secret,
    make_secret,
    mint,
    revoke_token,
)
from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.http.api import offered_operations
from ctxmgr.surfaces.http.guard import BURST_SECONDS, CLIENTS_MAX, Rates, names_loopback
from ctxmgr.surfaces.scopes import CONFINED, parse_session_id
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked, json_of, mounts, work_three_turns

Run = Callable[..., Result]
SECRET = b"s" * 32
KEYS = Keys(SECRET, ())
GRANT = Grant(session_id="s1", writes=False, expires=100, token_id="0123456789abcdef")


@pytest.fixture
async def local(home: Path) -> Worked:
    """A session in the embedded store: access does not depend on the store."""
    return await work_three_turns(f"sqlite:///{home}/sessions.db", home / "project")


@pytest.fixture
async def other(local: Worked) -> str:
    """Another session of the same store, with a file that only it has."""
    (local.project / "secret.md").write_text("not for s1\n", encoding="utf-8")
    async with package.connect(local.url, mounts=mounts(local.project), tracking=False) as client:
        session = await client.start("other", system_prompt="Be quiet.")
        version = await session.read("/workspace/secret.md")
    return version.object_id


@pytest.fixture
def guarded(local: Worked, ctxmgr: Run) -> Iterator[Server]:
    """A server that requires tokens on loopback too."""
    json_of(ctxmgr("token", "--json"))
    with serving(local.url, "--require-token") as running:
        yield running


def token_for(ctxmgr: Run, *flags: str) -> str:
    return str(json_of(ctxmgr("token", *flags, "--json"))["token"])


def test_a_token_contains_its_grant() -> None:
    """Tokens are signed, so no lookup is needed."""
    assert KEYS.read(mint(SECRET, GRANT), now=99) == GRANT


def test_an_altered_or_foreign_token_is_invalid() -> None:
    """Changing one character invalidates a token."""
    token = mint(SECRET, GRANT)
    altered = [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in (9, -9)]

    for wrong in (*altered, token[:-1], token + "AAAA", "", "ctxmgr_", mint(b"t" * 32, GRANT)):
        with pytest.raises(Denied):
            KEYS.read(wrong, now=0)


def test_a_token_expires() -> None:
    """A leaked token must not be valid forever."""
    with pytest.raises(Denied, match="expired"):
        KEYS.read(mint(SECRET, GRANT), now=100)


def test_revoking_a_token_leaves_the_others_valid(tmp_path: Path) -> None:
    """If one agent's machine is lost, the others need no new tokens."""
    secret, revoked = make_secret(tmp_path), RevokedTokens(tmp_path)
    other = replace(GRANT, token_id="f" * 16)
    lost, kept = (mint(secret, item) for item in (GRANT, other))
    keys = Keys(secret, revoked)
    assert keys.read(lost, now=0) == GRANT

    result = [revoke_token(tmp_path, lost), revoke_token(tmp_path, "0123456789abcdef")]

    with pytest.raises(Denied, match="revoked"):
        keys.read(lost, now=0)
    assert keys.read(kept, now=0) == other
    assert result == [GRANT.token_id] * 2
    (line,) = (tmp_path / REVOKED_FILE).read_text(encoding="ascii").split("\n")[1:-1]
    assert line.startswith(f"{GRANT.token_id} ")
    assert (tmp_path / REVOKED_FILE).stat().st_mode & 0o777 == 0o600


def test_a_token_without_an_id_is_valid_and_can_be_revoked(tmp_path: Path) -> None:
    """Earlier releases made them valid until they expire, and they can leak like any other."""
    secret = make_secret(tmp_path)
    lost, kept = (_without_id(secret, expires) for expires in (100, 200))
    keys = Keys(secret, RevokedTokens(tmp_path))
    before = keys.read(lost, now=0)

    result = revoke_token(tmp_path, lost)

    assert before == replace(GRANT, token_id=result)
    with pytest.raises(Denied, match="revoked"):
        keys.read(lost, now=0)
    assert keys.read(kept, now=0).expires == 200


def _without_id(secret: bytes, expires: int) -> str:
    """Make a token as an earlier release did."""
    payload = f'{{"session":"s1","writes":false,"expires":{expires}}}'.encode()
    signature = hmac.digest(secret, b"ctxmgr access token 1\n" + payload, hashlib.sha256)
    parts = (
        base64.urlsafe_b64encode(entry).rstrip(b"=").decode() for entry in (payload, signature)
    )
    return "ctxmgr_" + ".".join(parts)


def test_an_unreadable_revocation_list_denies_every_token(tmp_path: Path) -> None:
    """A disk error must not make revoked tokens valid again."""
    (tmp_path / REVOKED_FILE).write_bytes(b"\xff\n")

    with pytest.raises(Denied, match="cannot be read"):
        Keys(SECRET, RevokedTokens(tmp_path)).read(mint(SECRET, GRANT), now=0)


def test_revoked_tokens_stay_revoked_if_the_list_vanishes(tmp_path: Path) -> None:
    """Deleting the file of a running server must not restore access."""
    revoked = RevokedTokens(tmp_path)
    revoke_token(tmp_path, "a" * 16)
    assert "a" * 16 in revoked

    (tmp_path / REVOKED_FILE).unlink()
    vanished = "a" * 16 in revoked
    revoke_token(tmp_path, "b" * 16)

    assert vanished
    assert "a" * 16 in revoked
    assert "b" * 16 in revoked


def test_a_truncated_line_is_reported_and_affects_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk part of a line may be written; it must not look like a revocation."""
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda to, data: write(to, data[:10]))
        with pytest.raises(Unavailable, match="cut short"):
            revoke_token(tmp_path, "a" * 16)
    cut = "a" * 16 in RevokedTokens(tmp_path)

    revoke_token(tmp_path, "b" * 16)
    revoke_token(tmp_path, "a" * 16)

    assert not cut
    assert all(letter * 16 in RevokedTokens(tmp_path) for letter in "ab")


@pytest.mark.parametrize("named", ["", "no token", "0123456789ABCDEF", "ctxmgr_e30.e30"])
def test_only_a_valid_token_or_id_can_be_revoked(tmp_path: Path, named: str) -> None:
    """A user must not believe that a mistyped token was revoked."""
    make_secret(tmp_path)

    with pytest.raises((Incorrect, Denied)):
        revoke_token(tmp_path, named)

    assert not (tmp_path / REVOKED_FILE).exists()


def test_the_secret_is_readable_only_by_its_owner_and_created_once(tmp_path: Path) -> None:
    """Another user of the machine must not be able to sign tokens."""
    made = make_secret(tmp_path / "data")
    path = tmp_path / "data" / SECRET_FILE

    assert make_secret(tmp_path / "data") == made == load_secret(tmp_path / "data")
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
    path.chmod(0o644)
    with pytest.raises(Denied, match="read by other users"):
        load_secret(tmp_path / "data")


def test_a_missing_or_invalid_secret_is_reported(tmp_path: Path) -> None:
    """Tokens signed with a short secret could be forged."""
    with pytest.raises(NotFound):
        load_secret(tmp_path)
    (tmp_path / SECRET_FILE).write_bytes(b"short")
    (tmp_path / SECRET_FILE).chmod(0o600)

    with pytest.raises(Denied, match="not a valid secret"):
        load_secret(tmp_path)


def test_a_burst_is_allowed_before_the_rate_applies() -> None:
    """One client that sends requests without pause must not delay the others."""
    rates = Rates(per_second=10)

    waits = [rates.wait("a", now=0.0) for _ in range(10 * BURST_SECONDS + 1)]

    assert waits[:-1] == [0.0] * (10 * BURST_SECONDS)
    assert waits[-1] == pytest.approx(0.1)
    assert rates.wait("b", now=0.0) == 0
    assert rates.wait("a", now=0.1) == 0


def test_the_number_of_tracked_clients_is_limited() -> None:
    """A million addresses must not exhaust memory."""
    rates = Rates(per_second=1)
    for number in range(CLIENTS_MAX + 100):
        rates.wait(str(number), now=0.0)

    assert len(rates._buckets) == CLIENTS_MAX


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:80", True),
        ("localhost", True),
        ("[::1]:9", True),
        ("127.9.9.9", True),
        ("example.com", False),
        ("127.0.0.1.example.com", False),
        ("localhost.example.com", False),
        ("192.168.0.1", False),
        ("0.0.0.0", False),
        ("[::1", False),
        ("", False),
        ("evil@127.0.0.1", False),
        ("127.0.0.1@evil", False),
        ("127.0.0.1#evil", False),
        ("127.0.0.1/evil", False),
        ("localhost:port", False),
        ("127.0.0.1 evil", False),
        ("127.0.0.1\n", False),
    ],
)
def test_only_names_of_this_machine_are_loopback(host: str, *, ours: bool) -> None:
    """A DNS name that resolves to loopback would let a web page in."""
    assert names_loopback(host) is ours


def test_a_page_of_another_site_is_refused(local: Worked) -> None:
    """Neither by DNS rebinding nor from its own origin, and no CORS header allows it."""
    with serving(local.url) as server:
        port = server.url.rpartition(":")[2]
        answers = [
            httpx.get(f"{server.url}/sessions", headers=headers)
            for headers in (
                {"host": f"rebound.example:{port}"},
                {"origin": "https://example.com"},
                {"origin": "null"},
                {"origin": server.url},
            )
        ]

    assert [answer.status_code for answer in answers] == [421, 421, 421, 200]
    assert not any("access-control" in name for answer in answers for name in answer.headers)


def test_listening_beyond_loopback_requires_tokens(ctxmgr: Run, local: Worked) -> None:
    """Everything an agent saw must not be open to the network by default."""
    result = ctxmgr("serve", "--host", "0.0.0.0", "--port", "0", "--store", local.url)

    assert result.exit_code == 2, result.stderr
    assert "run `ctxmgr token`" in result.stderr


def test_beyond_loopback_every_request_needs_a_token(ctxmgr: Run, local: Worked) -> None:
    """No flag turns this off."""
    token = token_for(ctxmgr)

    with serving(local.url, "--host", "0.0.0.0") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        without = httpx.get(f"{url}/sessions")
        events = httpx.get(f"{url}/events")
        allowed = httpx.get(f"{url}/sessions", headers={"authorization": f"Bearer {token}"})

    assert [answer.status_code for answer in (without, events, allowed)] == [401, 401, 200]
    assert without.headers["www-authenticate"] == "Bearer"


def test_without_a_token_only_pages_without_data_are_served(guarded: Server) -> None:
    """The page must load before a user can enter a token."""
    open_paths = ("/", "/openapi.json")
    guarded_paths = ("/sessions", "/events", "/get", "/pin")

    assert [guarded.get(open_path).status_code for open_path in open_paths] == [200, 200]
    assert [guarded.get(guarded_path).status_code for guarded_path in guarded_paths] == [401] * 4
    assert guarded.get("/sessions", token="ctxmgr_no.no").status_code == 401


def test_a_token_is_revoked_while_the_server_runs(guarded: Server, ctxmgr: Run) -> None:
    """It is revoked by its id, without a restart."""
    lost, kept = (json_of(ctxmgr("token", "--json")) for _ in range(2))
    before = guarded.get("/sessions", token=lost["token"])

    result = json_of(ctxmgr("token", "--revoke", lost["token_id"], "--json"))
    after = [guarded.get("/sessions", token=grant["token"]) for grant in (lost, kept)]

    assert before.status_code == 200
    assert result == {"token_id": lost["token_id"], "revoked": True}
    assert [answer.status_code for answer in after] == [401, 200]
    assert "revoked" in after[0].json()["error"]["message"]
    assert ctxmgr("token", "--revoke", kept["token_id"], "--session", "s1").exit_code == 2


def test_a_stream_ends_with_its_token(guarded: Server, ctxmgr: Run, local: Worked) -> None:
    """A revoked client gets no more events, even on an open connection."""
    lost, kept = (json_of(ctxmgr("token", "--json")) for _ in range(2))
    headers = {"authorization": f"Bearer {lost['token']}"}
    with httpx.stream("GET", f"{guarded.url}/events", headers=headers, timeout=60) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": listening"
        ctxmgr("token", "--revoke", lost["token"])

        guarded.post("/pin", token=kept["token"], session=local.sid, object_id=local.notes)
        received = [line for line in lines if line]

    assert received[0] == "event: denied"
    assert "revoked" in received[1]
    assert len(received) == 2


def test_a_read_only_token_cannot_write(guarded: Server, ctxmgr: Run, local: Worked) -> None:
    """A public display needs less access than its operator."""
    token = token_for(ctxmgr, "--read-only")

    read = guarded.get("/objects", token=token, session=local.sid)
    written = guarded.post("/pin", token=token, session=local.sid, object_id=local.notes)

    assert (read.status_code, written.status_code) == (200, 403)


def test_a_sessions_token_gives_access_to_its_own_objects(
    guarded: Server, ctxmgr: Run, local: Worked
) -> None:
    """An agent can read and change its objects under each of their names."""
    token = token_for(ctxmgr, "--session", f"session:{local.sid}")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/objects", {"session": local.sid}),
        ("/log", {"session": f"session:{local.sid}"}),
        ("/context", {"session": local.sid, "turn": 1}),
        ("/cache", {"session": local.sid}),
        ("/timeline", {"session": local.sid}),
        ("/turn", {"session": local.sid, "turn": 2}),
        ("/show", {"name": local.sid}),
        ("/show", {"name": f"session:{local.sid}", "version": 1}),
        ("/show", {"name": "/workspace/notes.md"}),
        ("/show", {"name": f"chat:{local.sid}"}),
        ("/diff", {"name": local.sid}),
        ("/diff", {"name": local.notes[:8], "session": local.sid}),
        ("/as-of", {"name": local.sid, "valid_time": "2999-01-01T00:00:00Z"}),
        ("/get", {"object_id": f"turn:{local.sid}:1"}),
        ("/history", {"object_id": local.notes}),
        ("/pin", {"session": local.sid, "object_id": local.notes}),
    ]

    for path, given in asked:
        answer = guarded.post(path, token=token, **given)
        assert answer.status_code == 200, (path, given, answer.text)


def test_a_sessions_token_gives_access_to_nothing_else(
    guarded: Server, ctxmgr: Run, local: Worked, other: str
) -> None:
    """003-R111: one agent cannot access another's session under any name."""
    token, own = token_for(ctxmgr, "--session", local.sid), local.sid
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/sessions", {}),
        ("/feed", {}),
        ("/find", {"kind": "file"}),
        ("/status", {}),
        ("/objects", {"session": "other"}),
        ("/context", {"session": "session:other"}),
        ("/timeline", {"session": "other"}),
        ("/turn", {"session": "session:other"}),
        ("/show", {"name": "other"}),
        ("/show", {"name": "other", "session": "other"}),
        ("/show", {"name": other, "session": own}),
        ("/show", {"name": "chat:other", "session": own}),
        ("/diff", {"name": "session:other", "session": own}),
        ("/as-of", {"name": other, "valid_time": 4_000_000_000_000}),
        ("/get", {"object_id": other}),
        ("/get", {"object_id": "turn:other:1"}),
        ("/get", {"object_id": f"turn:{own}:1:1"}),
        ("/history", {"object_id": "session:other"}),
        ("/pin", {"session": "other", "object_id": other}),
    ]

    for path, given in asked:
        answer = guarded.post(path, token=token, **given)
        assert answer.status_code == 403, (path, given, answer.text)
    assert guarded.get("/events", token=token, session="other").status_code == 403
    missing = guarded.post("/pin", token=token, session=own, object_id=other)
    assert missing.status_code == 404
    for kind in ("turn", "fork", "run", "chat"):
        answers = [
            guarded.post("/activate", token=token, session=own, object_id=f"{kind}:{name}:1")
            for name in ("other", "absent")
        ]
        assert [answer.status_code for answer in answers] == [422, 422]
    mounted = {"session": own, "object_id": local.stub, "mount": ["/workspace=/"]}
    assert guarded.post("/activate", token=token, **mounted).status_code == 400


def test_a_sessions_token_receives_only_its_own_events(
    guarded: Server, ctxmgr: Run, local: Worked, other: str
) -> None:
    """Events contain what was read and written; another agent must not see them."""
    token = token_for(ctxmgr, "--session", local.sid)

    received = guarded.get("/events", token=token, after="start", follow="false").text
    everything = guarded.get("/events", token=token_for(ctxmgr), after="start", follow="false").text

    assert local.notes in received
    assert "turn_finished" in received
    assert other not in received
    assert "Be quiet." not in received
    assert other in everything


def test_every_scoped_operation_exists() -> None:
    """A renamed operation would silently become inaccessible."""
    assert set(CONFINED) <= {operation.name for operation in offered_operations(OPERATIONS)}


@pytest.mark.parametrize("name", ["", "session:", "session:session:s1"])
def test_a_token_needs_an_unambiguous_session_id(name: str) -> None:
    """Otherwise it could be interpreted as another session's."""
    with pytest.raises(Incorrect):
        parse_session_id(name)


def test_requests_over_the_rate_are_refused_with_a_delay(local: Worked) -> None:
    """The 429 response says how long to wait, and nothing was done."""
    with serving(local.url, "--rate", "1") as server, httpx.Client() as client:
        answers = [client.get(f"{server.url}/status") for _ in range(50)]

    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert refused[0].headers["retry-after"] == "1"
    assert refused[0].json()["error"]["code"] == "unavailable"
