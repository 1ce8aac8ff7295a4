"""Secrets are detected and masked, deterministically, in bounded time, and nothing else is."""

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.secrets.known_forms import FORMS
from ctxmgr.core.secrets.masking import Masker, Secrets, mask
from tests.components import ROOT
from tests.core.builders.secret_corpus import (
    ALNUM,
    CODE,
    drawn,
    harmless,
    placed,
    private_key,
    secrets,
)

CORPUS = tuple(secrets(random.Random(7)))
PLACED = tuple(placed(random.Random(6)))
HARMLESS = tuple(harmless(random.Random(8)))
SHOWS_SECRETS = "secrets.md"
"""The page whose examples are masked."""

GITHUB = "gh" + "p_" + drawn(random.Random(9), ALNUM, 36)


def test_at_least_98_of_100_made_up_secrets_are_masked() -> None:
    """The recall that the documents state, over every kind and context of the corpus."""
    missed = [(kind, text) for kind, text, secret in CORPUS if secret in mask(text).text]

    assert len(CORPUS) >= 220
    assert len(missed) <= 0.02 * len(CORPUS), missed


@pytest.mark.parametrize(("text", "secret"), PLACED)
def test_a_secret_is_masked_by_its_place(text: str, secret: str) -> None:
    """Commands, columns and blocks hold passwords without naming them beside the value."""
    masked = mask(text)

    assert secret not in masked.text
    assert mask(masked.text).text == masked.text


@given(st.lists(st.sampled_from([*(text for text, _ in PLACED), *CODE, "\n", " ", "\x1b[0m"])))
def test_only_secrets_change(parts: list[str]) -> None:
    """What stands around a secret is what the agent works with: it stays, byte for byte."""
    text = "".join(parts)
    masked = mask(text)

    position, rebuilt = 0, []
    for found in masked.found:
        assert position <= found.start < found.end <= len(text)
        rebuilt += [text[position : found.start], found.placeholder]
        position = found.end
    assert masked.text == "".join([*rebuilt, text[position:]])


def test_a_masked_secret_is_gone_to_the_last_character() -> None:
    """Half a key shown is half a key less to guess."""
    for kind, text, secret in CORPUS:
        masked = mask(text).text
        left = [at for at in range(0, len(secret) - 12, 6) if secret[at : at + 12] in masked]

        assert not left or secret in masked, (kind, masked)


def test_nothing_in_the_harmless_corpus_is_masked() -> None:
    """Hashes, UUIDs, lock files and images are what an agent works with."""
    alarms = [(what, mask(text).found) for what, text in HARMLESS if mask(text).found]

    assert len(HARMLESS) >= 200
    assert alarms == []


@pytest.mark.parametrize("folder", ["ctxmgr", "docs"])
def test_nothing_in_our_own_sources_is_masked(folder: str) -> None:
    """A large harmless text that was not written for this test."""
    paths = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    masked = {path.name: mask(path.read_text(encoding="utf-8")).found for path in paths}

    assert [name for name in masked if masked[name] and name != SHOWS_SECRETS] == []
    assert len(masked) > 10


def test_kinds_are_distinguished() -> None:
    """The placeholder tells the agent what was there, and us which detector matched."""
    correct: Counter[bool] = Counter()
    for kind, text, secret in CORPUS:
        if secret not in mask(text).text:
            correct[mask(text).found[0].kind == kind] += 1

    assert correct[True] / correct.total() >= 0.98


def test_a_placeholder_is_the_same_wherever_the_secret_occurs() -> None:
    """Equal bytes keep the prompt's prefix cached; different secrets stay distinguishable."""
    one = mask(f"a={GITHUB}").found[0].placeholder
    two = mask(f"{{'b': '{GITHUB}'}}").found[0].placeholder
    other = mask(GITHUB[:-1] + "Z").found[0].placeholder

    assert re.fullmatch(r"\[secret:github-token:[0-9a-f]{6}\]", one)
    assert one == two != other


def test_text_around_a_secret_stays() -> None:
    """The agent still sees the command, the name of the setting and the host."""
    masked = mask(f"$ env\nHOME=/root\nGH={GITHUB}\nPATH=/bin\n")

    assert masked.text == f"$ env\nHOME=/root\nGH={masked.found[0].placeholder}\nPATH=/bin\n"


def test_a_key_makes_fingerprints_that_cannot_confirm_a_guess() -> None:
    """Six digits of an unkeyed hash would let any reader of the prompt confirm a guess."""
    plain = mask('password = "hunter22!"').text

    assert mask('password = "hunter22!"', key=b"of this store").text != plain


@given(
    st.lists(st.sampled_from([*(text for _, text, _ in CORPUS), *CODE, " ", "=", ":", '"', "@"]))
)
def test_masking_twice_changes_nothing(parts: list[str]) -> None:
    """A text may be masked when it is stored and again when it is shown."""
    once = mask("".join(parts)).text

    assert mask(once).text == once


@given(st.text(max_size=300))
def test_any_text_can_be_masked(text: str) -> None:
    """Tool output may be any text."""
    masked = mask(text)

    assert masked.text == text or masked.found


@pytest.mark.parametrize(
    "unit",
    [
        *sorted({form.hints[0] + "a1" for form in FORMS}),
        *(
            "password=",
            "token: a1",
            "://a:b",
            "eyJa.",
            "-----BEGIN PRIVATE KEY-----",
            "A",
            "api_key",
            "curl -u a:",
            "mysql -p",
            "name: password value: ",
            "a,password\n",
            "| token |",
            "password: |\n  ",
            "\x1b[1m",
            "A" * 64 + "\n",
            "-----END PRIVATE KEY-----",
            "a:5432:b:",
            "kind: Secret\ndata:\n  a: b\n",
            "docker login -p",
        ),
    ],
)
def test_hostile_text_is_masked_in_bounded_time(unit: str) -> None:
    """A regular expression that backtracks would exceed the limit."""
    text = unit * (400_000 // len(unit))

    masked = mask(text)

    assert masked.text == text or masked.found


def test_a_policy_selects_where_secrets_are_masked() -> None:
    """The safe default masks what is shown and stores the original."""
    default, dropping, showing = Masker(), Masker(Secrets.DROP), Masker(Secrets.SHOW)

    assert GITHUB not in default.shown(GITHUB)
    assert default.stored(GITHUB) == GITHUB
    assert dropping.stored(GITHUB) == dropping.shown(GITHUB) == default.shown(GITHUB)
    assert showing.shown(GITHUB) == showing.stored(GITHUB) == GITHUB


def test_a_truncated_key_block_is_masked() -> None:
    """Long output is truncated, and the start of a private key is secret enough."""
    cut = private_key(random.Random(3), "RSA ")[:300]

    masked = mask(f"{cut}\n... 20 more lines\n")

    assert masked.text == f"{masked.found[0].placeholder}\n... 20 more lines\n"
