"""The caches of the proxy are bounded by bytes."""

from ctxmgr.proxy.engine import Api, Incoming
from ctxmgr.proxy.requests import RequestReader
from ctxmgr.proxy.sized_cache import SizedCache
from tests.proxy.claude_client import ClaudeClient, long_text


def test_the_least_recently_used_values_are_dropped() -> None:
    """What is used stays, and the sum of the sizes keeps within the bound."""
    cache: SizedCache[str, str] = SizedCache(100, count_max=10)
    for key in "abc":
        cache.keep(key, key, size=30)
    cache.get("a")

    cache.keep("d", "d", size=30)

    assert [cache.get(key) for key in "abcd"] == ["a", None, "c", "d"]
    assert cache.bytes == 90


def test_a_value_in_use_stays() -> None:
    """What is not stored yet must not be forgotten, however little room there is."""
    used = {"a"}
    cache: SizedCache[str, str] = SizedCache(50, count_max=10, in_use=lambda value: value in used)
    cache.keep("a", "a", size=40)
    cache.keep("b", "b", size=40)
    cache.keep("c", "c", size=40)

    assert [cache.get(key) for key in "abc"] == ["a", None, "c"]
    used.clear()
    cache.keep("c", "c", size=41)
    assert [cache.get(key) for key in "abc"] == [None, None, "c"]


def test_requests_are_kept_within_a_bound_and_read_the_same_without() -> None:
    """A client with few large requests must not fill the memory."""
    reader = RequestReader(bytes_max=1)
    patient = RequestReader()
    clients = [ClaudeClient(f"s{n}") for n in range(3)]
    for client in clients:
        client.say("Build it.")
        for n in range(3):
            client.run(f"c{n}", long_text(f"text{n}", 20))
            request = client.request()
            assert reader.read(request) == patient.read(request)

    known = [reader.new_bytes(client.request()) for client in clients]
    assert known[0] == len(clients[0].body())
    assert known[2] < 1_000


def test_a_message_that_changed_is_read_again() -> None:
    """Only what is the same byte for byte is taken from the last request."""
    reader, client = RequestReader(), ClaudeClient()
    client.say("Build it.")
    for n in range(6):
        client.run(f"c{n}", f"result {n}")
    first = reader.read(client.request())
    client.messages[4]["content"][0]["content"] = "another"
    request = client.request()

    second = reader.read(request)

    assert second == RequestReader().read(request)
    assert second.chain[:4] == first.chain[:4]
    assert second.chain[4] != first.chain[4]


def test_a_longer_head_moves_the_messages() -> None:
    """A field before the messages may have another length than in the last request."""
    reader, client = RequestReader(), ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    reader.read(client.request())
    longer = client.body().replace(b'{"model": ', b'{"stream": true, "model": ', 1)
    headers = {"x-claude-code-session-id": "s1"}
    request = Incoming(
        api=Api.ANTHROPIC_MESSAGES, path="/v1/messages", headers=headers, body=longer
    )

    assert reader.read(request) == RequestReader().read(request)
