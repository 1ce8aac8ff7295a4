"""Clients with other resources than ``connect`` gives them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ctxmgr.core.client.client import Client
from ctxmgr.core.client.runtime import Form, Runtime
from ctxmgr.core.events.listeners import ListenerFeed
from ctxmgr.core.files.fingerprints import Fingerprints


def with_clock(client: Client, clock: Callable[[], float]) -> Client:
    """Return a client on the same store and files, without trackers, that reads this clock."""
    return _client(replace(client.runtime, clock=clock))


def with_forms(client: Client, forms: Mapping[str, Form]) -> Client:
    """Return a client on the same store and files, without trackers, that has these forms, too."""
    return _client(replace(client.runtime, forms={**client.runtime.forms, **forms}))


def _client(runtime: Runtime) -> Client:
    listeners = ListenerFeed(runtime.store, listeners=())
    return Client(runtime, fingerprints=Fingerprints(None), listeners=listeners)
