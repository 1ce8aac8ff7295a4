"""Words of command lines and quoted names, against Python's own quoting and git's."""

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxmgr.core.discovery.command_line import join_path, options
from ctxmgr.core.discovery.quoting import glob_pattern, unescape, unquote_c, unquote_shell
from ctxmgr.core.discovery.shell_words import UnreadableError, Word, tokens

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(WORDS, min_size=1, max_size=4))
@example(["a\\\nb"])
def test_quoted_words_are_read_as_they_were(words: list[str]) -> None:
    """003-A24: what is quoted is a name, whatever letters it has."""
    line = shlex.join(["ls", *words])

    assert tokens(line) == [Word("ls"), *map(Word, words)]


@given(WORDS)
def test_a_shells_quotes_come_off(name: str) -> None:
    """003-A24: ls quotes so on a terminal."""
    assert unquote_shell(shlex.quote(name)) == name


@given(WORDS)
def test_octal_escapes_come_off_byte_by_byte(name: str) -> None:
    """003-A24: git writes each byte of a letter that is not ASCII by itself."""
    escaped = "".join(f"\\{byte:03o}" for byte in name.encode())

    assert unescape(escaped) == name
    assert unquote_c(f'"{escaped}"') == name


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("a", True),
        ("'*'", True),
        ("\\*", True),
        ("*", False),
        ("~/a", False),
        ("$A", False),
        ('"$A"', False),
        ("a{b,c}", False),
        ("a?", False),
    ],
)
def test_what_a_shell_would_expand_is_marked(text: str, literal: object) -> None:
    """003-A24: only the shell knows what was there."""
    (word,) = tokens(text)

    assert isinstance(word, Word)
    assert word.literal is literal


def test_a_line_as_long_as_a_program_is_not_read() -> None:
    """003-A24: every turn waits for it."""
    with pytest.raises(UnreadableError):
        tokens("a " * 100_000)


def test_options_are_separated_from_operands() -> None:
    """003-A24: a number after -A is not a file, and after -- everything is."""
    words = [Word(word) for word in ("-rnA", "3", "--include", "*.py", "x", "--", "-a")]

    given_ = options(words, valued="A", long_valued={"--include"})

    assert given_.has("-r")
    assert (given_.value("-A"), given_.value("--include")) == ("3", "*.py")
    assert [word.text for word in given_.operands] == ["x", "-a"]


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("src/**/*.py", "src/a/b/c.py", True),
        ("a?[b-d]", "axc", True),
        ("a[!b]", "ab", False),
        ("{a,b*}.c", "bx.c", True),
        ("$X/y", "anything", True),
        ("a.b", "axb", False),
    ],
)
def test_a_glob_matches_these(glob: str, path: str, expected: object) -> None:
    """003-A24: a header that the glob cannot expand to is not a header."""
    assert bool(glob_pattern(glob).fullmatch(path)) is expected


def test_a_step_up_stays_in_a_path() -> None:
    """003-A40: where links are, only the sandbox knows what is above a folder."""
    assert join_path("/w/./x", "../a//b") == "/w/x/../a/b"
    assert join_path("/w", "/abs") == "/abs"
