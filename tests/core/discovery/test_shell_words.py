"""Words of command lines and quoted names, compared with Python's quoting and git's."""

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
def test_quoted_words_are_unquoted_exactly(words: list[str]) -> None:
    """003-A24: a quoted name may contain any character."""
    line = shlex.join(["ls", *words])

    assert tokens(line) == [Word("ls"), *map(Word, words)]


@given(WORDS)
def test_shell_quotes_are_removed(name: str) -> None:
    """003-A24: ls quotes names this way on a terminal."""
    assert unquote_shell(shlex.quote(name)) == name


@given(WORDS)
def test_octal_escapes_are_decoded_byte_by_byte(name: str) -> None:
    """003-A24: git escapes each byte of a non-ASCII character separately."""
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
def test_words_that_a_shell_would_expand_are_marked(text: str, literal: object) -> None:
    """003-A24: only the shell knows what they expand to."""
    (word,) = tokens(text)

    assert isinstance(word, Word)
    assert word.literal is literal


def test_a_very_long_command_line_is_not_parsed() -> None:
    """003-A24: every turn waits for the parser."""
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
def test_a_glob_matches_these_names(glob: str, path: str, expected: object) -> None:
    """003-A24: a header that the glob cannot expand to is not a header."""
    assert bool(glob_pattern(glob).fullmatch(path)) is expected


def test_parent_directory_steps_are_kept_in_a_path() -> None:
    """003-A40: with symbolic links, only the sandbox knows the parent of a folder."""
    assert join_path("/w/./x", "../a//b") == "/w/x/../a/b"
    assert join_path("/w", "/abs") == "/abs"
