"""``ctxmgr proxy`` and its status. Imports what it needs when it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from ctxmgr.errors import NotFound
from ctxmgr.surfaces.operation import STREAMED, Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.proxy.recording.exchange_view import ExchangeDetail, ExchangeList
    from ctxmgr.proxy.server.running import RunningProxy


LISTED_MAX: Final = 10
"""Conversations and cache breaks that are listed, the latest ones; ``details`` has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnshapedReason:
    """Why requests went out as the client sent them."""

    requests: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationBill:
    """What a conversation cost, in billed tokens."""

    session: str
    requests: int
    billed: int
    baseline: int
    """Of the requests that the client sent."""
    saved: int
    breaks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfoundPrefix:
    """A cached prefix that the provider did not find."""

    session: str
    tokens: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyStatus:
    """What has passed through the proxy that runs on this machine."""

    url: str
    pid: int
    store: str
    record_only: bool
    shaped: int
    """Requests that went out shorter than the client sent them."""
    failed: int
    """Requests that no provider answered."""
    not_recorded: int
    """Exchanges that the store did not take."""
    saved: int
    """Billed tokens, net; negative if the proxy cost more than it saved."""
    unshaped: tuple[UnshapedReason, ...]
    conversations: tuple[ConversationBill, ...]
    """The latest ones."""
    breaks: tuple[UnfoundPrefix, ...]
    """The latest ones."""
    details: Mapping[str, Any] = field(repr=False, metadata=STREAMED)
    """Everything that the proxy reports; only JSON has it."""


async def proxy(
    app: "App",
    *,
    port: Annotated[int, Param("The port; 0 takes a free one.")] = 8322,
    upstream: Annotated[
        tuple[str, ...],
        Param("The address of a provider, as in openai=https://host; may be repeated.", "NAME=URL"),
    ] = (),
    record_only: Annotated[bool, Param("Record requests, and change none.")] = False,
    fidelity: Annotated[
        float, Param("From 0, cheapest, to 1, closest to what the client sent.", metavar="NUMBER")
    ] = 0.5,
    token: Annotated[bool, Param("Require a random token, which the URL then contains.")] = False,
    memory: Annotated[
        Path | None,
        Param("A project: conversations begin with what its sessions have learnt.", "DIR"),
    ] = None,
    knowledge: Annotated[
        Path | None,
        Param("A folder of notes: conversations begin with those that fit their question.", "DIR"),
    ] = None,
) -> None:
    """Forward an agent's model requests, shortened and recorded.

    Listens on loopback for Anthropic Messages, OpenAI Chat Completions and Responses. Point an
    agent's base URL at it, or use `ctxmgr wrap`. Credentials pass through and are never stored.
    """
    import asyncio

    from ctxmgr.proxy.server.providers import read_upstreams
    from ctxmgr.surfaces.operations.agents.proxy_server import open_proxy

    async with open_proxy(
        app,
        port=port,
        upstreams=read_upstreams(upstream),
        record_only=record_only,
        fidelity=fidelity,
        token=token,
        memory=memory,
        knowledge=knowledge,
    ) as running:
        app.write(
            f"ctxmgr proxy listens at {running.url}, and records in {running.store}\n"
            f"  ANTHROPIC_BASE_URL={running.url}/anthropic\n"
            f"  OPENAI_BASE_URL={running.url}/openai/v1\n"
        )
        await asyncio.Event().wait()


async def proxy_status(app: "App") -> ProxyStatus:  # noqa: ARG001 (every operation takes it)
    """Show what the running proxy has shaped, saved and not shaped, and why."""
    from ctxmgr.proxy.server.running import announced, ask_status
    from ctxmgr.settings import state_dir

    running = announced(state_dir())
    status = None if running is None else await ask_status(running)
    if running is None or status is None:
        raise NotFound("no proxy is running: start one with `ctxmgr proxy`")
    try:
        return _status(running, status)
    except (KeyError, TypeError, AttributeError) as error:
        raise NotFound(
            f"the proxy at {running.url} is of another version, and reports no {error}: restart it"
        ) from error


def _status(running: "RunningProxy", status: Mapping[str, Any]) -> ProxyStatus:
    requests, records = status["requests"], status["records"]
    accounts = list(status["conversations"].items())[-LISTED_MAX:]
    return ProxyStatus(
        url=running.url,
        pid=running.pid,
        store=running.store,
        record_only=status["record_only"],
        shaped=requests["shaped"],
        failed=requests["failed"],
        not_recorded=records["dropped"] + records["failed"],
        saved=status["billed"]["saved"],
        unshaped=tuple(
            UnshapedReason(requests=count, reason=reason)
            for reason, count in requests["unshaped"].items()
        ),
        conversations=tuple(
            ConversationBill(
                session=f"proxy-{name}",
                requests=account["requests"],
                billed=account["billed"],
                baseline=account["baseline"],
                saved=account["saved"],
                breaks=account["breaks"],
            )
            for name, account in reversed(accounts)
        ),
        breaks=tuple(
            UnfoundPrefix(
                session=f"proxy-{each['conversation']}", tokens=each["tokens"], cause=each["cause"]
            )
            for each in reversed(status["breaks"][-LISTED_MAX:])
        ),
        details=status,
    )


async def proxy_requests(
    app: "App",
    session: Annotated[str, Param("A session that the proxy recorded.")],
) -> "ExchangeList":
    """List the requests of a session, with what each cost and saved."""
    from ctxmgr.proxy.recording.exchange_view import list_exchanges

    return await list_exchanges(await app.store(), session, mask=app.masker.shown)


async def proxy_request(
    app: "App",
    session: Annotated[str, Param("A session that the proxy recorded.")],
    number: Annotated[int, Param("The number of the request.")],
) -> "ExchangeDetail":
    """Show a request as the client sent it and as it went out."""
    from ctxmgr.proxy.recording.exchange_view import show_exchange

    return await show_exchange(await app.store(), session, number, mask=app.masker.shown)
