"""Tools derived from the catalogue: names, descriptions and parameters."""

import pytest

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.memory.agent_tools import RememberArguments
from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.mcp.results import TEXT_CHARS_MAX, error_body, result_texts
from ctxmgr.surfaces.mcp.server import instructions_for, tool_definition
from ctxmgr.surfaces.mcp.tools import (
    NOT_OFFERED,
    NOTING,
    OF_PROJECT,
    PROJECT,
    READING,
    REMEMBERING,
    TOOLS_MAX,
    USUAL,
    McpScope,
    choose_tools,
    tool_name,
)

BOUND = McpScope(session_id="s1")
SCOPES = {"bound": BOUND, "project": McpScope(project=lambda: ("mine",)), "all": McpScope()}

SHORT = 300
"""Characters of a description: all of them are part of every model call."""


def test_every_operation_is_a_tool_or_left_out_for_a_reason() -> None:
    """A new operation is offered to agents on purpose, or not at all."""
    names = {operation.name for operation in OPERATIONS}

    offered = {tool_name(entry) for entry in OPERATIONS if entry.name not in NOT_OFFERED}
    assert set(NOT_OFFERED) <= names
    assert {*USUAL, *READING} <= offered
    assert not [
        operation.name
        for operation in OPERATIONS
        if operation.writes
        and operation.name not in NOT_OFFERED
        and operation.name not in OF_PROJECT
        and operation.name not in USUAL
    ]


def test_a_foreign_client_gets_the_tools_that_work_there() -> None:
    """Its prompts are its own: what changes those of ctxmgr would do nothing."""
    tools = choose_tools(OPERATIONS, None, scope=SCOPES["project"])

    assert [tool.name for tool in tools] == [*PROJECT, *REMEMBERING]
    assert not {"activate", "deactivate", "pin", "unpin"} & set(PROJECT)
    recall = next(tool for tool in tools if tool.name == "recall")
    assert recall.schema["required"] == ["query"]
    text = instructions_for(tools)
    assert "activate" not in text
    assert len(text) < 500


def test_the_usual_tools_are_few_and_short() -> None:
    """Each costs the agent tokens in every call."""
    tools = choose_tools(OPERATIONS, None, scope=BOUND)

    assert [each.name for each in tools] == [*USUAL, *REMEMBERING]
    assert max(len(USUAL), len(READING)) + len(REMEMBERING) + len(NOTING) <= TOOLS_MAX
    assert all(len(each.operation.help) <= SHORT for each in tools)


@pytest.mark.parametrize(
    ("scope", "writing"),
    [
        ("bound", {"activate", "deactivate", "pin", "unpin", "remember", "expand"}),
        ("project", {"remember", "expand"}),
        ("all", set()),
    ],
)
def test_only_a_server_of_one_session_changes_it(scope: str, writing: set[str]) -> None:
    """003-R111, 003-R125: no agent changes a session that the server was not bound to.

    What it remembers belongs to the project and changes no session.
    A client asks its user before a tool that writes, and not before one that reads.
    """
    offered = [entry for entry in OPERATIONS if SCOPES[scope].offers(entry)]
    tools = [
        tool_definition(tool)
        for entry in offered
        for tool in choose_tools(OPERATIONS, tool_name(entry), scope=SCOPES[scope])
    ]

    hints = {item.name: item.annotations for item in tools}
    assert {name for name, hint in hints.items() if hint and not hint.read_only_hint} == writing
    assert not [name for name, hint in hints.items() if hint is None or hint.destructive_hint]
    assert {tool_name(entry) for entry in offered if entry.writes} == writing


def test_no_tool_describes_the_database() -> None:
    """003-R151: the agent sees tools, and not where or in what its objects are stored."""
    for scope in SCOPES.values():
        with pytest.raises(Incorrect, match="unknown tool 'status'"):
            choose_tools(OPERATIONS, "status", scope=scope)


def test_a_tool_that_changes_a_session_needs_one() -> None:
    """The error says how to get it."""
    for name in ("project", "all"):
        with pytest.raises(Incorrect, match="pin changes a session: bind the server"):
            choose_tools(OPERATIONS, "recall,pin", scope=SCOPES[name])


def test_a_projects_tool_needs_one_of_its_sessions() -> None:
    """003-R111: a session of another folder is not found, whether or not it exists."""
    show, log = choose_tools(OPERATIONS, "show,log", scope=SCOPES["project"])

    assert "required" not in show.schema
    assert "required" not in log.schema
    assert show.arguments({"session": "mine"}) == {"object_id": "mine", "session": "mine"}
    with pytest.raises(Incorrect, match="show: missing session"):
        show.arguments({"object_id": "mine"})
    for name in ("mine", "session:mine"):
        assert show.scope.session_of({"session": name}) == "mine"
    for name in ("other", "session:other", "mine ", "MINE"):
        with pytest.raises(NotFound, match="this project has no session"):
            show.scope.session_of({"session": name})


def test_a_bound_tool_takes_no_session() -> None:
    """The agent cannot name another one, nor get its own wrong."""
    pin, show = choose_tools(OPERATIONS, "pin,show", scope=BOUND)

    assert pin.schema["required"] == ["object_id"]
    assert "session" not in {**pin.schema["properties"], **show.schema["properties"]}
    assert "required" not in show.schema
    assert show.arguments({"object_id": None}) == {"object_id": "s1", "session": "s1"}
    assert show.arguments({"name": "x"}) == {"object_id": "x", "session": "s1"}, "its former name"
    with pytest.raises(Incorrect, match="bound to session s1"):
        pin.arguments({"object_id": "x", "session": "s2"})


def test_what_an_agent_remembers_names_files_as_in_our_own_agents() -> None:
    """One tool has one set of names, wherever the agent gets it from; the former one is known."""
    (remember,) = choose_tools(OPERATIONS, "remember", scope=BOUND)
    fact = {"key": "test runner", "value": "pytest"}

    assert RememberArguments.model_fields.keys() == remember.schema["properties"].keys()
    for name in ("files", "file"):
        assert remember.arguments({**fact, name: ["a.py"]})["files"] == ("a.py",)


@pytest.mark.parametrize(
    ("names", "scope", "message"),
    [
        ("recall,format", "all", "unknown tool 'format' .one of: "),
        ("vacuum", "all", "unknown tool 'vacuum'"),
        ("get", "project", "unknown tool 'get'"),
        ("sessions", "bound", "for a server of session s1"),
        (" , ", "all", "no tool is named"),
        (
            "activate,deactivate,pin,unpin,recall,show,as-of,log,diff,objects,timeline,turn,cache",
            "bound",
            "at most 12",
        ),
    ],
)
def test_a_wrong_choice_of_tools_is_refused(names: str, scope: str, message: str) -> None:
    """The mistake is reported at once, with the available tools."""
    with pytest.raises(Incorrect, match=message):
        choose_tools(OPERATIONS, names, scope=SCOPES[scope])


def test_tools_can_be_chosen() -> None:
    """An agent gets what its task needs."""
    tools = choose_tools(OPERATIONS, "recall, as-of,diff,recall", scope=BOUND)

    assert [tool.name for tool in tools] == ["recall", "as_of", "diff"]


def test_a_long_text_is_cut_where_the_agent_sees_it() -> None:
    """One file must not fill the window of whoever only wanted to look."""
    first, content = result_texts({"kind": "file", "content": "x" * (TEXT_CHARS_MAX + 1)})

    assert first == '{"kind":"file"}'
    assert len(content) < TEXT_CHARS_MAX + 100
    assert content.endswith("the resource has them all]")


def test_an_internal_error_hides_its_details_from_the_agent() -> None:
    """The agent cannot use the details; they are logged."""
    result = error_body(RuntimeError("inside"))

    assert result["code"] == "error"
    assert "inside" not in result["message"].removesuffix(" inside ctxmgr")
