"""Facts that give one slot two values."""

import pytest

from ctxmgr.memory.contradictions.slots import disagreement, says_nothing_new
from ctxmgr.memory.records.bodies import Fact


def fact(key: str, value: str, scope: str | None = None) -> Fact:
    return Fact(key=key, value=value, scope=scope)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (fact("database", "PostgreSQL 15"), fact("db", "PostgreSQL 14")),
        (fact("indentation", "4 spaces", "python"), fact("indent style", "tabs", "Python")),
        (fact("test runner", "pytest"), fact("runner for tests", "unittest")),
        (fact("auto push", "off"), fact("auto push", "enabled")),
        (fact("port", "8080"), fact("default port", "9090")),
        (fact("commit style", "use emojis"), fact("commit style", "do not use emojis")),
        (fact("timeout", "30 seconds"), fact("timeout", "ten seconds")),
        (fact("upload limit", "10 MB"), fact("upload limit", "100 MB")),
        (fact("cache TTL", "60 s"), fact("how long cache entries live", "1 hour")),
        (fact("where we deploy", "Heroku"), fact("Deployment target", "Fly.io")),
        (fact("CI provider", "Jenkins"), fact("our continuous integration", "GitLab CI")),
        (fact("storage of secrets", "Vault"), fact("where secrets are stored", "env files")),
        (fact("API base URL", "https://api.shop.io"), fact("apiBaseUrl", "https://shop.io/api")),
    ],
)
def test_two_values_for_one_slot_disagree(one: Fact, other: Fact) -> None:
    """001-R067, 001-R134: whatever the order, and though the keys are put differently."""
    assert disagreement(one, other) is not None
    assert disagreement(other, one) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (fact("database", "Postgres"), fact("db", "PostgreSQL")),
        (fact("database", "PostgreSQL"), fact("database", "PostgreSQL 15")),
        (fact("indentation", "4 spaces", "python"), fact("indentation", "2 spaces", "go")),
        (fact("indentation", "4 spaces"), fact("indentation", "2 spaces", "go")),
        (fact("indentation", "four spaces"), fact("indentation", "4 spaces")),
        (fact("port of the API", "8080"), fact("port of the database", "5432")),
        (fact("auto push", "off"), fact("auto push", "disabled")),
        (fact("owner", "Ada"), fact("reviewer", "Grace")),
        (fact("cache provider", "redis"), fact("cache strategy", "write through")),
        (fact("maximum upload size", "10 MB"), fact("minimum upload size", "1 KB")),
        (fact("log format", "JSON"), fact("format of dates", "ISO 8601")),
        (fact("docs", "in /docs"), fact("documentation", "in /docs, built nightly")),
        (fact("API host", "api.shop.io"), fact("API path", "/v1")),
        (fact("build target", "es2020"), fact("build directory", "dist")),
        (fact("output folder", "build/site"), fact("output folder", "`./build/site/`")),
        (fact("API URL", "https://shop.io/api"), fact("API URL", "https://shop.io/api/.")),
    ],
)
def test_the_same_value_or_another_slot_does_not(one: Fact, other: Fact) -> None:
    """A narrower scope is an exception, and a longer value says more of the same."""
    assert disagreement(one, other) is None
    assert disagreement(other, one) is None


def test_another_address_with_the_same_words_is_news() -> None:
    """Only an address as a whole is known."""
    known = fact("API URL", "https://api.shop.io")

    assert not says_nothing_new(fact("API URL", "https://shop.io/api"), known)
    assert says_nothing_new(fact("API URL", "https://api.shop.io/"), known)
