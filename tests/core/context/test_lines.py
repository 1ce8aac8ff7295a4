"""Lines of the pool, and the ids parsed back from them."""

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
def test_an_id_is_parsed_back_unchanged(object_id: str) -> None:
    """Rebuilt prompts name their pieces; call ids from providers may contain any character."""
    line = toolcall_line(CallRef(object_id=object_id, tool="a type=b", status="ok"))

    assert line_id(line) == object_id
