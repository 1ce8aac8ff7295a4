"""Replays recorded sessions: under a policy alone, or through a client with a store in memory.

Files are not read: their content today is not what the recorded calls saw.

``MarkedCache`` models a cache that holds only marked prefixes. Anthropic's stores an entry at the
end of each block with ``cache_control``, and finds entries that end at such a block or at most
``LOOKBACK_BLOCKS`` before it. Minimum length and time to live are ignored, as in all figures here.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ctxmgr.app import connect
from ctxmgr.bench.economy.judge import Judge, PolicyResult, Score, SessionResult
from ctxmgr.bench.economy.needs import Need, needs
from ctxmgr.bench.economy.policies import Ours, Policy
from ctxmgr.bench.economy.references import dangling, withheld
from ctxmgr.bench.economy.sent_messages import SentMessages, of_payload
from ctxmgr.bench.economy.sessions import RecordedSession, ReplayedTurn
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.policy import Economy, Prices
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.core.secrets.masking import Secrets
from ctxmgr.core.sessions.collapse import Window
from ctxmgr.core.store.canonical import canonical
from ctxmgr.errors import Corrupt
from ctxmgr.messages import anthropic

NO_SYSTEM_PROMPT: Final = " "
"""A session must have a system prompt; a blank one is not sent."""


async def replayed(
    recorded: RecordedSession,
    policy: Economy | None,
    *,
    form: str = "openai",
    window: Window | None = None,
) -> AsyncIterator[Any]:
    """Yield the payload of every call, in order; without a policy, in the plain layout.

    Secrets are shown: a recording may hold text that looks like one, and masking is not measured.
    """
    folding, shown = window or Window(), Secrets.SHOW
    async with connect(
        "sqlite://:memory:", tracking=False, window=folding, secrets=shown
    ) as client:
        prompt = recorded.system_prompt or NO_SYSTEM_PROMPT
        session = await client.start("replayed", system_prompt=prompt)
        for number, turn in enumerate(recorded.turns, start=1):
            yield await session.render(turn.user, policy=policy, form=form)
            await _answer(session, turn, number)


async def _answer(session: LiveSession, turn: ReplayedTurn, number: int) -> None:
    parts = []
    for n, part in enumerate(turn.parts):
        if isinstance(part, str):
            parts.append(text_part(part))
            continue
        call_id = f"{number}.{n}"
        parts.append(toolcall_part(call_id, call_id=call_id, tool=part.tool, args=part.args))
        if part.output is not None:
            await session.record(
                call_id, tool=part.tool, args=part.args, output=part.output, discover=False
            )
    await session.end_turn(parts)


LOOKBACK_BLOCKS: Final = 20


class MarkedCache:
    """The cache of one session."""

    def __init__(self, *, count: Count) -> None:
        self._count = count
        self._entries: set[str] = set()

    def send(self, request: Mapping[str, Any]) -> tuple[int, int]:
        """Return the numbers of tokens that are read from the cache and that are not."""
        ends: list[tuple[str, int]] = []
        marks: list[int] = []
        prefix, tokens = "", 0
        for n, (text, marked, framing) in enumerate(_blocks(request)):
            prefix = sha256(f"{prefix}{text}".encode())
            tokens += self._count(text) + framing
            ends.append((prefix, tokens))
            if marked:
                marks.append(n)
        near = {n for mark in marks for n in range(max(0, mark - LOOKBACK_BLOCKS), mark + 1)}
        cached = max((n for n in near if ends[n][0] in self._entries), default=None)
        self._entries.update(ends[n][0] for n in marks)
        read = ends[cached][1] if cached is not None else 0
        return read, tokens - read


def _blocks(request: Mapping[str, Any]) -> Iterator[tuple[str, bool, int]]:
    """Yield every block as text, whether it is marked, and the tokens of its framing.

    An output is counted as a message, which it is in other APIs.
    """
    messages = (message["content"] for message in request["messages"])
    for content in (request["system"], *messages):
        for n, block in enumerate(content):
            framed = n == 0 or block["type"] == "tool_result"
            yield _text(block), "cache_control" in block, MESSAGE_TOKENS if framed else 0


def _text(block: Mapping[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_result":
            return str(block["content"])
        case _:
            return canonical({"tool": block["name"], "args": block["input"]}).decode()


class Truth(NamedTuple):
    """What prompts say that is not so, in all calls of all sessions."""

    dangling: int
    """References to lines that are not in the same prompt."""
    withheld: int
    """Files that were read, and are not whole in the next prompt."""


class Replay:
    """The sessions of one file, which can be replayed under any policy."""

    def __init__(self, name: str, sessions: Sequence[RecordedSession], *, count: Count) -> None:
        self.name = name
        self.sessions = tuple(sessions)
        self._count = count
        self._needs: list[list[tuple[Need, ...]]] = [needs(session) for session in sessions]

    def under(self, policy: Policy) -> PolicyResult:
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
        return PolicyResult(policy=policy.name, total=total, sessions=tuple(results))

    def truth(self, ours: Ours) -> Truth:
        """Look at every prompt for references that dangle and for reads that are withheld."""
        dangling_references = withheld_reads = 0
        for session in self.sessions:
            for context, stream in ours.prompts(session, count=self._count):
                dangling_references += len(dangling(stream))
                withheld_reads += len(withheld(stream, context.transcript.rope.text))
        return Truth(dangling_references, withheld_reads)

    def marked_cost(self, ours: Ours, *, prices: Prices, marks_max: int = 2) -> float:
        """Return the cost of our requests with a cache that keeps only marked prefixes.

        ``marks_max`` is the number of marks that are left besides those of system prompt and end.
        """
        cost = 0.0
        for session in self.sessions:
            cache = MarkedCache(count=self._count)
            for context in ours.contexts(session, count=self._count):
                request = replace(context, marks=context.marks[:marks_max])
                read, written = cache.send(anthropic.payload(request))
                cost += prices.read * read + prices.write * written
        return cost

    async def check_through_client(self, ours: Ours) -> int:
        """Replay through a client and its store; return how many calls sent the same bytes.

        ``Corrupt`` if one did not: the figures would then not be those of ``render``.
        """
        calls = 0
        for session in self.sessions:
            sent = SentMessages(count=self._count)
            contexts = ours.contexts(session, count=self._count)
            async for payload in replayed(session, ours.policy):
                if of_payload(payload, count=self._count) != sent.of(next(contexts)):
                    raise Corrupt(f"{self.name} {session.session_id}: call {calls + 1} differs")
                calls += 1
        return calls
