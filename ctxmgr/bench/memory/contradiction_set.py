"""Facts that contradict each other and facts that do not, by template: 500 pairs of each.

The templates are of software projects: what a key is called in several ways, and values it may
have. A contradicting pair has the same scope, the same key or a paraphrase of it, and two different
values. A harmless pair is a restatement, a refinement, another scope, another key that shares a
word, or two unrelated facts. There are three sets: slots that were written with the rules, and
those of ``paraphrases``.
"""

from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Final

from ctxmgr.bench.memory.paraphrases import READ, UNREAD, Slot
from ctxmgr.bench.report import Figure
from ctxmgr.memory.contradictions.slots import disagreement
from ctxmgr.memory.records.bodies import Fact

PAIRS: Final = 500
BOUND: Final = 0.95


_SLOTS: Final = (
    Slot(
        ("test runner", "runner for tests", "tests: runner", "the test runner we use"),
        ("pytest", "unittest", "nose2", "tox"),
        ("with fixtures", "in parallel"),
    ),
    Slot(
        ("database", "db", "the database in use", "project database"),
        ("PostgreSQL 14", "PostgreSQL 15", "MySQL 8", "SQLite"),
        ("on port 5432", "in Docker"),
    ),
    Slot(
        ("indentation", "indent", "indent style", "code indentation"),
        ("4 spaces", "2 spaces", "tabs"),
        ("everywhere",),
    ),
    Slot(
        ("package manager", "pkg manager", "manager for packages", "pkg mgr"),
        ("uv", "poetry", "pip", "conda"),
        ("with a lock file",),
    ),
    Slot(
        ("maximum line length", "max line length", "line length limit", "line length maximum"),
        ("88", "100", "120 characters", "79"),
        ("for code",),
    ),
    Slot(
        ("request timeout", "timeout of requests", "timeout for a request", "req timeout"),
        ("30 seconds", "10 seconds", "two minutes", "5 seconds"),
        ("per attempt",),
    ),
    Slot(
        ("deployment day", "day of deployment", "deploy day", "deployments: day"),
        ("Tuesday", "Friday", "Monday", "Thursday"),
        ("in the morning",),
    ),
    Slot(
        ("log level in production", "production log level", "prod log level", "log level for prod"),
        ("warning", "debug", "error"),
        ("by default",),
    ),
    Slot(
        ("authentication method", "auth method", "method of authentication", "authentication"),
        ("OAuth tokens", "session cookies", "API keys", "mutual TLS"),
        ("for all endpoints",),
    ),
    Slot(
        ("number of retries", "retry count", "retries", "count of retries"),
        ("3", "five", "0", "10"),
        ("at most",),
    ),
    Slot(
        ("default branch", "main branch", "branch by default", "name of the main branch"),
        ("develop", "trunk", "release"),
        ("protected",),
    ),
    Slot(
        ("mocks in tests", "mocking in tests", "mock use in tests", "use of mocks in tests"),
        ("allowed", "never", "forbidden in integration code"),
        ("since March",),
    ),
    Slot(
        (
            "Python version",
            "python version in use",
            "version of Python",
            "supported Python version",
        ),
        ("3.11", "3.12", "3.9"),
        ("on CI",),
    ),
    Slot(
        ("message queue", "queue for messages", "msg queue", "queue of messages"),
        ("RabbitMQ", "Kafka", "Redis streams"),
        ("with three replicas",),
    ),
    Slot(
        ("HTTP client", "client for HTTP", "HTTP client library", "lib for the HTTP client"),
        ("httpx", "requests", "aiohttp"),
        ("with retries",),
    ),
    Slot(
        ("commit message language", "language of commit messages", "commit msg language"),
        ("English", "German", "French"),
        ("only",),
    ),
    Slot(
        ("release cadence", "cadence of releases", "releases: cadence", "our release cadence"),
        ("weekly", "every two weeks", "monthly"),
        ("since summer",),
    ),
    Slot(
        ("API prefix", "prefix of the API", "path prefix of the API", "URL prefix for the API"),
        ("/v1", "/api", "/api/v2"),
        ("on every host",),
    ),
    Slot(
        ("session lifetime", "lifetime of a session", "session's lifetime", "session duration"),
        ("one hour", "30 minutes", "12 hours"),
        ("of inactivity",),
    ),
    Slot(
        ("owner of the billing code", "billing code owner", "billing owner", "who owns billing"),
        ("Ada", "Grace", "Linus"),
        ("until June",),
    ),
)
_SETS: Final[Mapping[str, Sequence[Slot]]] = MappingProxyType(
    {
        "slots of the rules": _SLOTS,
        "other wording that was read": READ,
        "other wording, never read": UNREAD,
    }
)
_SCOPES: Final = ("python", "frontend", "api", "billing service", None)
_OPPOSITE_SCOPES: Final = ("mobile app", "legacy importer")


def contradiction_figures(pairs: int = PAIRS) -> list[Figure]:
    """Judge generated pairs of each set."""
    return [figure for name, slots in _SETS.items() for figure in _judged(slots, pairs, of=name)]


def _judged(slots: Sequence[Slot], pairs: int, *, of: str) -> list[Figure]:
    random = Random(11)  # noqa: S311 -- repeatable
    contradicting = [_contradicting(random, slots) for _ in range(pairs)]
    harmless = [_harmless(random, slots) for _ in range(pairs)]
    found = sum(disagreement(one, other) is not None for one, other in contradicting)
    false = sum(disagreement(one, other) is not None for one, other in harmless)
    recall = found / pairs
    precision = found / (found + false) if found + false else 0.0
    return [
        Figure(
            what=f"contradictions between structured facts, {of}, {name}",
            value=value,
            bound=f"at least {BOUND:g}",
            meets=value >= BOUND,
            against="rows: 90 % recall",
            note=f"{pairs} contradicting pairs and as many harmless ones",
        )
        for name, value in (("recall", recall), ("precision", precision))
    ]


def _contradicting(random: Random, slots: Sequence[Slot]) -> tuple[Fact, Fact]:
    slot = random.choice(slots)
    scope = random.choice(_SCOPES)
    one, other = random.sample(slot.values, 2)
    if random.random() < 0.3:  # noqa: PLR2004 -- some say more about their value
        other = f"{other} {random.choice(slot.more)}"
    return (
        Fact(key=random.choice(slot.names), value=one, scope=scope),
        Fact(key=random.choice(slot.names), value=other, scope=scope),
    )


def _harmless(random: Random, slots: Sequence[Slot]) -> tuple[Fact, Fact]:
    slot, other_slot = random.sample(slots, 2)
    scope = random.choice(_SCOPES)
    value = random.choice(slot.values)
    key, again = random.choice(slot.names), random.choice(slot.names)
    match random.randrange(6):
        case 0:
            return Fact(key=key, value=value, scope=scope), Fact(
                key=again, value=value, scope=scope
            )
        case 1:
            more = f"{value} {random.choice(slot.more)}"
            return Fact(key=key, value=value, scope=scope), Fact(key=again, value=more, scope=scope)
        case 2:
            elsewhere = random.choice(_OPPOSITE_SCOPES)
            another = random.choice(slot.values)
            return (
                Fact(key=key, value=value, scope=scope),
                Fact(key=again, value=another, scope=elsewhere),
            )
        case 3:
            prefix = random.choice(("backup", "staging", "legacy"))
            another = random.choice(slot.values)
            return (
                Fact(key=key, value=value, scope=scope),
                Fact(key=f"{prefix} {again}", value=another, scope=scope),
            )
        case 4 if slot.others:
            return (
                Fact(key=key, value=value, scope=scope),
                Fact(key=random.choice(slot.others), value=random.choice(slot.values), scope=scope),
            )
        case _:
            return (
                Fact(key=key, value=value, scope=scope),
                Fact(
                    key=random.choice(other_slot.names),
                    value=random.choice(other_slot.values),
                    scope=scope,
                ),
            )
