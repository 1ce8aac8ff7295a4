"""Tools derived from the catalogue: names, descriptions and parameters."""

import pytest

from ctxmgr.core.secrets.masking import Masker
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.catalogue import OPERATIONS
from ctxmgr.surfaces.mcp.results import TEXT_CHARS_MAX, error_body, result_texts
from ctxmgr.surfaces.mcp.server import tool_definition
from ctxmgr.surfaces.mcp.tools import NOT_OFFERED, TOOLS_MAX, USUAL, choose_tools, tool_name

SHORT = 300
"""Characters of a description: all eight are part of every model call."""


def test_every_operation_is_a_tool_or_left_out_for_a_reason() -> None:
    """A new operation is offered to agents on purpose, or not at all."""
    names = {operation.name for operation in OPERATIONS}

    assert set(NOT_OFFERED) <= names
    assert set(USUAL) <= {tool_name(entry) for entry in OPERATIONS if entry.name not in NOT_OFFERED}
    assert not [
        operation.name
        for operation in OPERATIONS
        if operation.writes and operation.name not in NOT_OFFERED and operation.name not in USUAL
    ]


def test_the_usual_tools_are_eight_and_short() -> None:
    """Each costs the agent tokens in every call."""
    tools = choose_tools(OPERATIONS, None, session_id="s1")

    assert [each.name for each in tools] == list(USUAL)
    assert len(USUAL) == TOOLS_MAX
    assert all(len(each.operation.help) <= SHORT for each in tools)


@pytest.mark.parametrize("session_id", [None, "s1"])
def test_hints_say_what_writes(session_id: str | None) -> None:
    """A client asks its user before a tool that writes, and not before one that reads."""
    tools = [
        tool_definition(tool) for tool in choose_tools(OPERATIONS, None, session_id=session_id)
    ]

    hints = {item.name: item.annotations for item in tools}
    writing = {name for name, hint in hints.items() if hint and not hint.read_only_hint}
    assert writing == {"activate", "deactivate", "pin", "unpin"}
    assert not [name for name, hint in hints.items() if hint is None or hint.destructive_hint]


def test_a_bound_tool_takes_no_session() -> None:
    """The agent cannot name another one, nor get its own wrong."""
    pin, show = choose_tools(OPERATIONS, "pin,show", session_id="s1")

    assert pin.schema["required"] == ["object_id"]
    assert "session" not in {**pin.schema["properties"], **show.schema["properties"]}
    assert "required" not in show.schema
    assert show.arguments({"name": None}) == {"name": "s1", "session": "s1"}
    with pytest.raises(Incorrect, match="bound to session s1"):
        pin.arguments({"object_id": "x", "session": "s2"})


@pytest.mark.parametrize(
    ("names", "session_id", "message"),
    [
        ("activate,format", None, "unknown tool 'format' .one of: "),
        ("vacuum", None, "unknown tool 'vacuum'"),
        ("sessions", "s1", "for a server of session s1"),
        (" , ", None, "no tool is named"),
        ("activate,deactivate,pin,unpin,recall,show,as-of,status,diff", None, "at most 8"),
    ],
)
def test_a_wrong_choice_of_tools_is_refused(
    names: str, session_id: str | None, message: str
) -> None:
    """The mistake is reported at once, with the available tools."""
    with pytest.raises(Incorrect, match=message):
        choose_tools(OPERATIONS, names, session_id=session_id)


def test_tools_can_be_chosen() -> None:
    """Layers will add theirs, and eight stay the most."""
    tools = choose_tools(OPERATIONS, "recall, as-of,diff,recall", session_id=None)

    assert [tool.name for tool in tools] == ["recall", "as_of", "diff"]


def test_a_long_text_is_cut_where_the_agent_sees_it() -> None:
    """One file must not fill the window of whoever only wanted to look."""
    first, content = result_texts({"kind": "file", "content": "x" * (TEXT_CHARS_MAX + 1)}, Masker())

    assert first == '{"kind":"file"}'
    assert len(content) < TEXT_CHARS_MAX + 100
    assert content.endswith("the resource has them all]")


def test_an_internal_error_hides_its_details_from_the_agent() -> None:
    """The agent cannot use the details; they are logged."""
    result = error_body(RuntimeError("inside"))

    assert result["code"] == "error"
    assert "inside" not in result["message"].removesuffix(" inside ctxmgr")
