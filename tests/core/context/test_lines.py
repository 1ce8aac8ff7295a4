"""Lines of the pool, and the ids that are read from them again."""

import pytest

from ctxmgr.core.context.lines import line_id, toolcall_line
from ctxmgr.core.objects.answers import CallRef


@pytest.mark.parametrize(
    "object_id",
    [
        "call-1",
        "call 1 of 2",
        "id=call",
        "two\nlines",
        "\x00\x1f\x7f\x80\x9f",
        "\u2028 and \u2029",
        "C:\\xml, \\x41 and \\u2030",
        "é中😀",
    ],
)
def test_an_id_is_read_as_it_was_before_it_was_shown(object_id: str) -> None:
    """A prompt made again names its pieces; ids of calls are a provider's, with any character."""
    line = toolcall_line(CallRef(object_id=object_id, tool="a type=b", status="ok"))

    assert line_id(line) == object_id
