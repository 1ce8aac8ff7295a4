"""The report of the demo: chapters with turns and facts, collected while the agent works.

The field names are the keys of ``ctxmgr demo --json``.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.assembly import Context
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.economy.policy import Prices
from ctxmgr.core.model import ToolUse
from ctxmgr.harness.loop_events import (
    AnswerRestarted,
    LoopEvent,
    ToolRan,
    TurnEnded,
    TurnStarted,
)

MESSAGE_TOKENS: Final = 4
"""What a message costs besides its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStarted:
    """Where the demo runs."""

    session: str
    store: str
    sandbox: str
    tokens_by: str
    """The vocabulary that tokens are counted with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterStarted:
    number: int
    title: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShown:
    """One turn, for a reader."""

    turn: int
    says: str = field(repr=False)
    did: tuple[str, ...]
    tokens: int
    """Of the prompt that was sent."""
    append_only_tokens: int
    """Of a prompt that holds the whole conversation with every output in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsFound:
    facts: tuple[Mapping[str, str], ...]


DemoPart: TypeAlias = DemoStarted | ChapterStarted | TurnShown | FactsFound
"""What is shown while the demo runs."""


class PromptCosts:
    """Adds up what the prompts cost with a provider's cache, and what append-only ones would.

    Each prompt is written to the cache from where it differs from the one before; the rest is read.
    """

    def __init__(self, counter: TokenCounter, *, system_prompt: str) -> None:
        self._counter, self._prices = counter, Prices()
        self._sent_before = ""
        self._appended = counter.count(system_prompt)
        self._appended_before = 0
        self.cost = 0.0
        self.append_only_cost = 0.0

    def sent(self, prompt: str, *, user: str) -> tuple[int, int]:
        """Count a prompt; return its tokens, and those of the append-only one."""
        if user:
            self.appended(user)
        tokens = self._counter.count(prompt)
        common = os.path.commonprefix((self._sent_before, prompt))  # noqa: RUF071 (texts)
        same = self._counter.count(common)
        self.cost += self._price(same, tokens)
        self.append_only_cost += self._price(self._appended_before, self._appended)
        self._sent_before, self._appended_before = prompt, self._appended
        return tokens, self._appended

    def appended(self, text: str) -> None:
        """Count a message of the append-only conversation."""
        self._appended += MESSAGE_TOKENS + self._counter.count(text)

    def _price(self, same: int, tokens: int) -> float:
        return self._prices.read * same + self._prices.write * (tokens - same)


class TurnWatcher:
    """Turns the events of the loop into turns for a reader."""

    def __init__(
        self,
        session: LiveSession,
        *,
        user: str,
        costs: PromptCosts,
        on_turn: Callable[[TurnShown], None],
    ) -> None:
        self._session, self._user, self._costs = session, user, costs
        self._on_turn = on_turn
        self._called: list[ToolUse] = []
        self._ran: list[ToolRan] = []
        self._counted = (0, 0)

    def on_event(self, event: LoopEvent) -> None:
        """Handle one event of the loop."""
        match event:
            case TurnStarted():
                assert self._session.sent is not None
                self._counted = self._costs.sent(self._session.sent.text(), user=self._user)
                self._user = ""
            case ToolUse():
                self._called.append(event)
            case ToolRan():
                self._ran.append(event)
            case AnswerRestarted():
                self._called.clear()
            case TurnEnded():
                self._finish(event)

    def _finish(self, finished: TurnEnded) -> None:
        calls = list(zip(self._called, self._ran, strict=True))
        did = tuple(
            f"{call.tool} {self._argument(call.args)}{'' if ran.ok else ' (failed)'}"
            for call, ran in calls
        )
        self._costs.appended(finished.text)
        for call, ran in calls:
            self._costs.appended(f"{call.tool} {orjson.dumps(call.args).decode()}")
            self._costs.appended(ran.message)
        tokens, append_only_tokens = self._counted
        self._on_turn(
            TurnShown(
                turn=finished.turn,
                says=finished.text,
                did=did,
                tokens=tokens,
                append_only_tokens=append_only_tokens,
            )
        )
        self._called, self._ran = [], []

    def _argument(self, args: Mapping[str, Any] | str) -> str:
        """Return the first argument of a call; an object by the end of its path, not by its id."""
        if isinstance(args, str):
            return args
        argument = str(next(iter(args.values()), ""))
        path = paths(self._session.context()).get(argument)
        return argument if path is None else "/".join(path.split("/")[-2:])


def paths(context: Context) -> dict[str, str]:
    """Return the agent's path of each file of the pool."""
    return {
        entry.object_id: _field(entry.line, "path", until=" file_type=")
        for entry in context.pool.entries
        if " type=file " in entry.line
    }


def object_at(session: LiveSession, name: str) -> str:
    """Return the id of a file of the pool whose path ends with that name."""
    by_id = paths(session.context())
    return next(object_id for object_id, path in by_id.items() if path.endswith(f"/{name}"))


def _field(line: str, name: str, *, until: str = " ") -> str:
    return line.partition(f" {name}=")[2].partition(until)[0]


@dataclass(frozen=True, slots=True)
class Suggestion:
    what: str
    how: str
    """A command to copy, or a page to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    title: str
    says: str
    turns: tuple[TurnShown, ...] = ()
    facts: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    session: str
    store: str
    sandbox: str
    tokens_by: str
    """The vocabulary that tokens are counted with."""
    chapters: tuple[Chapter, ...]
    tokens: int
    """Of all prompts."""
    append_only_tokens: int
    cost_ratio: float
    """The cost of the prompts with a provider's cache, as a share of the append-only ones'."""
    fixed: bool
    """Whether the project's own tests pass at the end."""
    proven: bool
    """Whether the rebuilt prompt has its recorded hash and is what the model received."""
    try_next: tuple[Suggestion, ...]

    @property
    def turns(self) -> tuple[TurnShown, ...]:
        return tuple(turn for chapter in self.chapters for turn in chapter.turns)


def try_next(url: str | None, *, session: str, program: str) -> tuple[Suggestion, ...]:
    """Suggest commands for the store, if it was kept, and what to do after that."""
    kept = (
        Suggestion("look at it", f"{program} serve --store {url}"),
        Suggestion("turn by turn", f"{program} log {session} --store {url}"),
        Suggestion("an old prompt", f"{program} context {session} --turn 3 --store {url}"),
    )
    return (
        *(kept if url else ()),
        Suggestion("a real model", f"{program} run 'your task' --model NAME"),
        Suggestion("your own loop", "docs/harness.md"),
    )
