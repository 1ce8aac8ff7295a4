"""The cost model and the measure of kept names, on numbers that can be checked by hand."""

from ctxmgr.bench.economy.judge import Judge
from ctxmgr.bench.economy.needs import needs
from ctxmgr.bench.economy.sent_messages import SentMessage
from ctxmgr.bench.economy.sessions import RecordedSession, read_session
from ctxmgr.core.economy.policy import Prices
from tests.bench.economy.recordings import call, message


def sent(*texts: str) -> list[SentMessage]:
    return [SentMessage.of("user", text, text, count=len) for text in texts]


def recorded(*messages: dict[str, str]) -> RecordedSession:
    return read_session({"id": "x", "messages": list(messages)})


def test_the_common_beginning_is_read_and_the_rest_is_written() -> None:
    """Exact to the byte: part of a message may be cached. A message costs its tokens plus four."""
    judge = Judge(count=len)

    judge.judge(sent("abc", "defg"), (), answer="x")
    judge.judge(sent("abc", "deXX", "new"), (), answer="x")

    score = judge.score
    assert score.input_tokens == (7 + 8) + (7 + 8 + 7)
    assert score.cached_tokens == 7 + len("de")
    assert score.output_tokens == 2 * 5
    assert score.cost(Prices(read=0.1, write=1, output=5)) == 28 + 0.9 + 50


def test_a_break_is_a_change_before_the_last_message() -> None:
    """The last message may grow within one turn."""
    judge = Judge(count=len)

    for prompt in (["a", "b"], ["a", "bc"], ["X", "bc", "d"]):
        judge.judge(sent(*prompt), (), answer="")

    assert [call.broke for call in judge.calls] == [False, False, True]


def test_a_need_is_a_name_that_occurred_only_in_outputs() -> None:
    """Names in messages stay visible when outputs are hidden."""
    session = recorded(
        message("user", "fix user_given"),
        message("assistant", call("read", path="from_argument")),
        message("tool", "def from_output(user_given): ..."),
        message("assistant", "from_output from_argument user_given"),
    )

    session_needs = needs(session)[1]

    assert [(need.name, need.only_output) for need in session_needs] == [
        ("from_output", True),
        ("from_argument", False),
    ]


def test_a_name_is_kept_by_itself_and_a_line_only_whole() -> None:
    """A list of names keeps the name; only the line says what it was about."""
    session = recorded(
        message("assistant", call("read", path="a")),
        message("tool", "def long_name(x):\n    return x"),
        message("assistant", "now long_name"),
    )
    (need,) = needs(session)[1]
    outcomes = []
    for prompt in ("def long_name(x):\nmore", "[#1: long_name]", "long_names", ""):
        judge = Judge(count=len)
        judge.judge(sent(prompt), [need], answer="")
        outcomes.append((judge.score.keep, judge.score.line))

    assert outcomes == [(1, 1), (1, 0), (0, 0), (0, 0)]


def test_only_the_context_of_a_name_counts_in_a_very_long_line() -> None:
    """No policy shows single-line JSON in full."""
    line = "a" * 150 + " long_name " + "b" * 150
    session = recorded(
        message("assistant", call("read", path="a")),
        message("tool", line),
        message("assistant", "long_name"),
    )
    (need,) = needs(session)[1]
    judge = Judge(count=len)

    judge.judge(sent("..." + line[80:230] + "..."), [need], answer="")

    assert judge.score.line == 1
