"""Counters of a running proxy, for ``ctxmgr proxy status`` and ``ctxmgr doctor``. No I/O."""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from ctxmgr.core.model import to_value
from ctxmgr.proxy.engine import Outgoing
from ctxmgr.proxy.server.accounting import (
    ConversationAccount,
    CountedRequest,
    RequestAccount,
)
from ctxmgr.proxy.server.exchange import ProxiedExchange
from ctxmgr.proxy.server.headers import REASON_LENGTH_MAX

REASONS_MAX: Final = 50
"""Different reasons that are counted; further ones are counted together."""

CONVERSATIONS_MAX: Final = 1_000
"""Accounts that are kept; the least recently used are dropped, and stay in the totals."""

TIMES_MAX: Final = 2_000
"""Latest times from which the percentiles are computed."""

BREAKS_MAX: Final = 50
"""Latest cache breaks that are listed."""

OTHER_REASONS: Final = "other reasons"


class Traffic:
    """What has passed through a proxy since it started."""

    def __init__(self, *, describe: Callable[[], Mapping[str, Any]]) -> None:
        self._describe = describe
        self._started_ms = time.time_ns() // 1_000_000
        self.shaped = 0
        self.passed = 0
        """Requests of other paths."""
        self.refused = 0
        """Requests that the proxy did not forward."""
        self.failed = 0
        """Requests that no provider answered."""
        self.cut = 0
        """Answers that broke off."""
        self.abandoned = 0
        """Requests whose client disconnected."""
        self.unstored = 0
        """Answers that were passed on although the store had not taken what was sent."""
        self._unshaped: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self._prepare: deque[float] = deque(maxlen=TIMES_MAX)
        self._totals = ConversationAccount()
        self._accounts: OrderedDict[str, ConversationAccount] = OrderedDict()
        self._breaks: deque[dict[str, Any]] = deque(maxlen=BREAKS_MAX)

    def prepared(self, outgoing: Outgoing, *, seconds: float) -> None:
        """Count a request that is about to be forwarded."""
        self._prepare.append(seconds)
        if outgoing.shaped:
            self.shaped += 1
        else:
            self.unshaped(reason=outgoing.reason or "nothing to shape")

    def unshaped(self, *, reason: str) -> None:
        """Count a request that went out as the client sent it."""
        reason = reason[:REASON_LENGTH_MAX]  # it may quote the request
        known = reason in self._unshaped or len(self._unshaped) < REASONS_MAX
        self._unshaped[reason if known else OTHER_REASONS] += 1

    def withdrawn(self, *, reason: str) -> None:
        """Count a request as unshaped that was counted as shaped and then refused."""
        self.shaped -= 1
        self.unshaped(reason=reason)

    def ended(self, exchange: ProxiedExchange) -> RequestAccount | None:
        """Count an exchange that ended; None if the provider reported no usage."""
        self._statuses[str(exchange.status or "none")] += 1
        if exchange.usage is None:
            return None
        outgoing = exchange.outgoing
        counted = CountedRequest(
            usage=exchange.usage,
            model=exchange.model,
            began_ms=exchange.began_ms,
            baseline_tokens=outgoing.baseline_tokens,
            sent_tokens=outgoing.sent_tokens,
            retrieved_tokens=outgoing.retrieved_tokens,
            planned=any(fold.planned for fold in outgoing.folds),
            break_cause=outgoing.break_cause,
        )
        name = outgoing.conversation or ""
        before = self._accounts.get(name, ConversationAccount()) if name else ConversationAccount()
        after, account = before.with_request(counted)
        if name:
            self._accounts[name] = after
            self._accounts.move_to_end(name)
            if len(self._accounts) > CONVERSATIONS_MAX:
                self._accounts.popitem(last=False)
        self._totals = _sum(self._totals, counted, account)
        if account.lost is not None:
            self._breaks.append(
                {"conversation": name, "time": exchange.began_ms, **asdict(account.lost)}
            )
        return account

    def status(self) -> dict[str, Any]:
        """Return everything as a JSON value."""
        return {
            **self._describe(),
            "started": self._started_ms,
            "requests": {
                "shaped": self.shaped,
                "unshaped": dict(self._unshaped.most_common()),
                "other_paths": self.passed,
                "refused": self.refused,
                "failed": self.failed,
                "cut": self.cut,
                "abandoned": self.abandoned,
                "unstored": self.unstored,
                "statuses": dict(self._statuses),
            },
            "prepare_ms": {
                "p50": _percentile(self._prepare, 0.5),
                "p99": _percentile(self._prepare, 0.99),
            },
            "billed": _value(self._totals),
            "conversations": {name: _value(account) for name, account in self._accounts.items()},
            "breaks": list(self._breaks),
        }


def _sum(
    totals: ConversationAccount, request: CountedRequest, account: RequestAccount
) -> ConversationAccount:
    return ConversationAccount(
        requests=totals.requests + 1,
        usage=totals.usage + request.usage,
        billed=totals.billed + account.billed,
        baseline=totals.baseline + account.baseline,
        retrieved_tokens=totals.retrieved_tokens + request.retrieved_tokens,
        breaks=totals.breaks + (account.lost is not None),
        lost_tokens=totals.lost_tokens + (account.lost.tokens if account.lost else 0),
    )


def _value(account: ConversationAccount) -> dict[str, Any]:
    return {
        "requests": account.requests,
        "usage": to_value(account.usage),
        "billed": round(account.billed),
        "baseline": round(account.baseline),
        "saved": round(account.saved),
        "retrieved_tokens": account.retrieved_tokens,
        "breaks": account.breaks,
        "lost_tokens": account.lost_tokens,
    }


def _percentile(seconds: Sequence[float], share: float) -> float | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1_000, 2)
