"""Facts that contradict each other and facts that do not, by template: 500 pairs of each.

The templates are of software projects: what a key is called in two ways, and values it may have.
A contradicting pair has the same scope, the same key or a paraphrase of it, and two different
values. A harmless pair is a restatement, a refinement, another scope, another key that shares a
word, or two unrelated facts.
"""

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from ctxmgr.bench.report import Figure
from ctxmgr.memory.contradictions.slots import disagreement
from ctxmgr.memory.records.bodies import Fact

PAIRS: Final = 500
BOUND: Final = 0.95


class _Slot(NamedTuple):
    names: tuple[str, ...]
    """Ways to call it."""
    values: tuple[str, ...]
    """None says the same as another."""
    more: tuple[str, ...]
    """What may be added to a value without changing it."""


_SLOTS: Final = (
    _Slot(
        ("test runner", "runner for tests", "tests: runner", "the test runner we use"),
        ("pytest", "unittest", "nose2", "tox"),
        ("with fixtures", "in parallel"),
    ),
    _Slot(
        ("database", "db", "the database in use", "project database"),
        ("PostgreSQL 14", "PostgreSQL 15", "MySQL 8", "SQLite"),
        ("on port 5432", "in Docker"),
    ),
    _Slot(
        ("indentation", "indent", "indent style", "code indentation"),
        ("4 spaces", "2 spaces", "tabs"),
        ("everywhere",),
    ),
    _Slot(
        ("package manager", "pkg manager", "manager for packages", "pkg mgr"),
        ("uv", "poetry", "pip", "conda"),
        ("with a lock file",),
    ),
    _Slot(
        ("maximum line length", "max line length", "line length limit", "line length maximum"),
        ("88", "100", "120 characters", "79"),
        ("for code",),
    ),
    _Slot(
        ("request timeout", "timeout of requests", "timeout for a request", "req timeout"),
        ("30 seconds", "10 seconds", "two minutes", "5 seconds"),
        ("per attempt",),
    ),
    _Slot(
        ("deployment day", "day of deployment", "deploy day", "deployments: day"),
        ("Tuesday", "Friday", "Monday", "Thursday"),
        ("in the morning",),
    ),
    _Slot(
        ("log level in production", "production log level", "prod log level", "log level for prod"),
        ("warning", "debug", "error"),
        ("by default",),
    ),
    _Slot(
        ("authentication method", "auth method", "method of authentication", "authentication"),
        ("OAuth tokens", "session cookies", "API keys", "mutual TLS"),
        ("for all endpoints",),
    ),
    _Slot(
        ("number of retries", "retry count", "retries", "count of retries"),
        ("3", "five", "0", "10"),
        ("at most",),
    ),
    _Slot(
        ("default branch", "main branch", "branch by default", "name of the main branch"),
        ("develop", "trunk", "release"),
        ("protected",),
    ),
    _Slot(
        ("mocks in tests", "mocking in tests", "mock use in tests", "use of mocks in tests"),
        ("allowed", "never", "forbidden in integration code"),
        ("since March",),
    ),
    _Slot(
        (
            "Python version",
            "python version in use",
            "version of Python",
            "supported Python version",
        ),
        ("3.11", "3.12", "3.9"),
        ("on CI",),
    ),
    _Slot(
        ("message queue", "queue for messages", "msg queue", "queue of messages"),
        ("RabbitMQ", "Kafka", "Redis streams"),
        ("with three replicas",),
    ),
    _Slot(
        ("HTTP client", "client for HTTP", "HTTP client library", "lib for the HTTP client"),
        ("httpx", "requests", "aiohttp"),
        ("with retries",),
    ),
    _Slot(
        ("commit message language", "language of commit messages", "commit msg language"),
        ("English", "German", "French"),
        ("only",),
    ),
    _Slot(
        ("release cadence", "cadence of releases", "releases: cadence", "our release cadence"),
        ("weekly", "every two weeks", "monthly"),
        ("since summer",),
    ),
    _Slot(
        ("API prefix", "prefix of the API", "path prefix of the API", "URL prefix for the API"),
        ("/v1", "/api", "/api/v2"),
        ("on every host",),
    ),
    _Slot(
        ("session lifetime", "lifetime of a session", "session's lifetime", "session duration"),
        ("one hour", "30 minutes", "12 hours"),
        ("of inactivity",),
    ),
    _Slot(
        ("owner of the billing code", "billing code owner", "billing owner", "who owns billing"),
        ("Ada", "Grace", "Linus"),
        ("until June",),
    ),
)
_SCOPES: Final = ("python", "frontend", "api", "billing service", None)
_OPPOSITE_SCOPES: Final = ("mobile app", "legacy importer")


def contradiction_figures(pairs: int = PAIRS) -> list[Figure]:
    """Judge generated pairs."""
    random = Random(11)  # noqa: S311 -- repeatable
    contradicting = [next(_contradicting(random)) for _ in range(pairs)]
    harmless = [next(_harmless(random)) for _ in range(pairs)]
    found = sum(disagreement(one, other) is not None for one, other in contradicting)
    false = sum(disagreement(one, other) is not None for one, other in harmless)
    recall = found / pairs
    precision = found / (found + false) if found + false else 0.0
    missed = [
        f"{a.key}={a.value} / {b.key}={b.value}" for a, b in contradicting if not disagreement(a, b)
    ]
    some = "; ".join(dict.fromkeys(missed[:3])) or "none"
    note = f"{pairs} pairs of each; missed, for instance: {some}"
    return [
        Figure(
            what=f"contradictions between structured facts, {name}",
            value=value,
            bound=f"at least {BOUND:g}",
            meets=value >= BOUND,
            against="rows: 90 % recall",
            note=note,
        )
        for name, value in (("recall", recall), ("precision", precision))
    ]


def _contradicting(random: Random) -> Iterator[tuple[Fact, Fact]]:
    slot = random.choice(_SLOTS)
    scope = random.choice(_SCOPES)
    one, other = random.sample(slot.values, 2)
    if random.random() < 0.3:  # noqa: PLR2004 -- some say more about their value
        other = f"{other} {random.choice(slot.more)}"
    yield (
        Fact(key=random.choice(slot.names), value=one, scope=scope),
        Fact(key=random.choice(slot.names), value=other, scope=scope),
    )


def _harmless(random: Random) -> Iterator[tuple[Fact, Fact]]:
    slot, other_slot = random.sample(_SLOTS, 2)
    scope = random.choice(_SCOPES)
    value = random.choice(slot.values)
    key, again = random.choice(slot.names), random.choice(slot.names)
    match random.randrange(5):
        case 0:
            yield Fact(key=key, value=value, scope=scope), Fact(key=again, value=value, scope=scope)
        case 1:
            more = f"{value} {random.choice(slot.more)}"
            yield Fact(key=key, value=value, scope=scope), Fact(key=again, value=more, scope=scope)
        case 2:
            elsewhere = random.choice(_OPPOSITE_SCOPES)
            another = random.choice(slot.values)
            yield (
                Fact(key=key, value=value, scope=scope),
                Fact(key=again, value=another, scope=elsewhere),
            )
        case 3:
            prefix = random.choice(("backup", "staging", "legacy"))
            another = random.choice(slot.values)
            yield (
                Fact(key=key, value=value, scope=scope),
                Fact(key=f"{prefix} {again}", value=another, scope=scope),
            )
        case _:
            yield (
                Fact(key=key, value=value, scope=scope),
                Fact(
                    key=random.choice(other_slot.names),
                    value=random.choice(other_slot.values),
                    scope=scope,
                ),
            )
