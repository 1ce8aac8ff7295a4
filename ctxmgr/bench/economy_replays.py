"""One file of recorded sessions under one policy: what was sent, what it cost, what it kept."""

from collections.abc import Sequence

from ctxmgr.bench.context_policies import Ours, Policy
from ctxmgr.bench.judging import Judge, Result, Score, SessionResult
from ctxmgr.bench.marked_cache import MarkedCache
from ctxmgr.bench.needs import Need, needs
from ctxmgr.bench.recorded import RecordedSession
from ctxmgr.bench.replaying import replayed
from ctxmgr.bench.sent_messages import SentMessages, of_payload
from ctxmgr.core.folding import Count
from ctxmgr.core.planner import Prices
from ctxmgr.errors import Corrupt
from ctxmgr.messages import anthropic


class Replay:
    """The sessions of one file, ready to be replayed under any policy."""

    def __init__(self, name: str, sessions: Sequence[RecordedSession], *, count: Count) -> None:
        self.name = name
        self.sessions = tuple(sessions)
        self._count = count
        self._needs: list[list[tuple[Need, ...]]] = [needs(each) for each in sessions]

    def under(self, policy: Policy) -> Result:
        """Replay all sessions."""
        results, total = [], Score()
        for session, needed in zip(self.sessions, self._needs, strict=True):
            judge, sent = Judge(count=self._count), SentMessages(count=self._count)
            contexts = policy.contexts(session, count=self._count)
            for context, need, turn in zip(contexts, needed, session.turns, strict=True):
                judge.judge(sent.of(context), need, answer=turn.raw)
            total.add(judge.score)
            results.append(
                SessionResult(
                    session_id=session.session_id, score=judge.score, calls=tuple(judge.calls)
                )
            )
        return Result(policy=policy.name, total=total, sessions=tuple(results))

    def marked_cost(self, ours: Ours, *, prices: Prices) -> float:
        """Return what our requests cost where only marked prefixes are kept."""
        cost = 0.0
        for session in self.sessions:
            cache = MarkedCache(count=self._count)
            for context in ours.contexts(session, count=self._count):
                read, written = cache.send(anthropic.payload(context))
                cost += prices.read * read + prices.write * written
        return cost

    async def check_through_client(self, ours: Ours) -> int:
        """Replay through a client and its store; return how many calls sent the same bytes.

        ``Corrupt`` if one did not: then the figures would not be those of ``render``.
        """
        calls = 0
        for session in self.sessions:
            sent = SentMessages(count=self._count)
            contexts = ours.contexts(session, count=self._count)
            async for payload in replayed(session, ours.policy):
                really = of_payload(payload, count=self._count)
                if really != sent.of(next(contexts)):
                    raise Corrupt(f"{self.name} {session.session_id}: call {calls + 1} differs")
                calls += 1
        return calls
