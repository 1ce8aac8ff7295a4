"""What the tools of an agent are called, take and say of themselves. No I/O.

    Definition        name, description and arguments of a tool, as a model is offered it
    DEFINITIONS       the tools of every session; ``RECALL`` and ``LIST_OBJECTS`` only of some
    read_arguments    checks what a model passes, and says what is wrong in the words of a person

Arguments come from models. Unknown ones are rejected, so that the model notices a misspelt name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ctxmgr.core.client import recall
from ctxmgr.core.context.compact import LIST_TOOL
from ctxmgr.core.context.guide import NamedPolicy, tool_help
from ctxmgr.errors import Incorrect

BASH_SECONDS: Final = 120.0
"""For one command, unless the model asks for more."""

BASH_SECONDS_MAX: Final = 3_600.0
"""The most that a model may ask for."""


NAME_CHARS_COMPARED: Final = 80
"""Characters of an unknown argument's name that are compared, which takes quadratic time."""

LINES_MAX: Final = 1_000_000_000
"""The last line that can be asked for; far beyond any file, and a number that every tool takes."""

LISTED_OBJECTS: Final = 200
"""Objects that one call lists, unless the model asks for more: some 6,000 tokens."""

LISTED_OBJECTS_MAX: Final = 1_000

RECALL_QUERY_CHARS_MAX: Final = 1_000
"""In one query."""


class Arguments(BaseModel):
    """The base of all tool arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ObjectArguments(Arguments):
    id: str = Field(min_length=1)


class ReadArguments(Arguments):
    path: str = Field(min_length=1)
    offset: int = Field(default=1, ge=1, le=LINES_MAX, description="The first line, from 1.")
    limit: int | None = Field(
        default=None,
        ge=1,
        le=LINES_MAX,
        description="How many lines; all by default, except of a very large file.",
    )


class WriteArguments(Arguments):
    path: str = Field(min_length=1)
    content: str


class EditArguments(Arguments):
    path: str = Field(min_length=1)
    old: str = Field(min_length=1, description="Text that is in the file exactly once.")
    new: str


class LsArguments(Arguments):
    path: str = Field(default=".", min_length=1)


class GrepArguments(Arguments):
    pattern: str = Field(min_length=1, description="A regular expression in the syntax of ripgrep.")
    path: str = Field(default=".", min_length=1, description="A folder or a file.")
    glob: str | None = Field(
        default=None, min_length=1, description="Only files whose name matches, such as *.py."
    )
    ignore_case: bool = False


class FindArguments(Arguments):
    path: str = Field(default=".", min_length=1)
    name: str | None = Field(
        default=None, min_length=1, description="A shell pattern for the file's name."
    )


class RecallArguments(Arguments):
    query: str = Field(
        min_length=1, max_length=RECALL_QUERY_CHARS_MAX, description="Words to look for."
    )
    limit: int = Field(default=5, ge=1, le=20, description="How many objects at most.")


class ListArguments(Arguments):
    offset: int = Field(default=1, ge=1, description="The first object, from 1, the oldest.")
    limit: int = Field(default=LISTED_OBJECTS, ge=1, le=LISTED_OBJECTS_MAX)


class BashArguments(Arguments):
    command: str = Field(min_length=1)
    timeout_s: float = Field(default=BASH_SECONDS, gt=0, le=BASH_SECONDS_MAX)


def read_arguments(tool: str, model: type[BaseModel], args: Mapping[str, Any]) -> BaseModel:
    """Check the arguments of a call; ``Incorrect`` names the first that is wrong."""
    takes = f"{tool} takes {', '.join(model.model_fields)}"
    unknown = next((name for name in args if name not in model.model_fields), None)
    if unknown is not None:  # before what is missing, which may be misspelt
        near = get_close_matches(str(unknown)[:NAME_CHARS_COMPARED], model.model_fields, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise Incorrect(f"{tool}: unknown argument {unknown!r:.80}; {hint}{takes}")
    try:
        return model.model_validate(dict(args))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"]) or "arguments"
        if fault["type"] == "missing":
            raise Incorrect(f"{tool}: {where} is missing; {takes}") from error
        raise Incorrect(f"{tool}: {where} {_wanted(fault)}, not {fault['input']!r:.80}") from error


def _wanted(fault: Any) -> str:
    """Say what an argument has to be, in the words of a person."""
    limits = fault.get("ctx", {})
    match fault["type"]:
        case "string_type":
            return "must be a string"
        case "string_too_short":
            return "must not be empty"
        case "string_too_long":
            return f"must have at most {limits['max_length']:,} characters"
        case "bool_type" | "bool_parsing":
            return "must be true or false"
        case "int_type" | "int_parsing" | "int_from_float":
            return "must be an integer"
        case "float_type" | "float_parsing":
            return "must be a number"
        case "greater_than":
            return f"must be more than {limits['gt']:g}"
        case "greater_than_equal":
            return f"must be at least {limits['ge']:g}"
        case "less_than_equal":
            return f"must be at most {limits['le']:g}"
        case _:
            return f"is invalid ({fault['msg']})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool that is offered to the model."""

    name: str
    description: str
    arguments: type[BaseModel]
    """A pydantic model of the arguments."""
    id_help: str | None = None
    """What the argument ``id`` may be; None: there is none, or it needs no explanation."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        schema = self.arguments.model_json_schema()
        if self.id_help is not None:
            schema["properties"]["id"]["description"] = self.id_help
        return schema


def context_tools(policy: str | NamedPolicy) -> tuple[Definition, ...]:
    """Return the tools that change what a session shows, as its policy words them."""
    help_ = tool_help(policy)
    described = {
        "activate": help_.activate,
        "deactivate": help_.deactivate,
        "pin": help_.pin,
        "unpin": help_.unpin,
    }
    return tuple(
        Definition(
            name=name,
            description=description,
            arguments=ObjectArguments,
            id_help=help_.object_id,
        )
        for name, description in described.items()
    )


DEFINITIONS: Final = (
    *context_tools("plain"),
    Definition(
        name="read",
        description="Read a text file, or some of its lines.",
        arguments=ReadArguments,
    ),
    Definition(
        name="write", description="Write a text file, replacing it.", arguments=WriteArguments
    ),
    Definition(
        name="edit", description="Replace one piece of a text file.", arguments=EditArguments
    ),
    Definition(name="ls", description="List a folder.", arguments=LsArguments),
    Definition(
        name="grep",
        description="Search files for a pattern. Files that .gitignore names are left out.",
        arguments=GrepArguments,
    ),
    Definition(
        name="find",
        description="Find files below a folder. Files that .gitignore names are left out.",
        arguments=FindArguments,
    ),
    Definition(name="bash", description="Run a shell command.", arguments=BashArguments),
)
"""The tools of every session, in the words of the plain form. ``Tools.definitions`` has those of
one session: in the words of its policy, and with ``recall`` where its client can search."""

RECALL: Final = Definition(
    name=recall.TOOL,
    description=(
        "Search everything that was read or printed in this session, also what is folded or no "
        "longer shown. Gives ids to activate."
    ),
    arguments=RecallArguments,
)
LIST_OBJECTS: Final = Definition(
    name=LIST_TOOL,
    description="List the known objects with their ids, a page at a time, from the oldest.",
    arguments=ListArguments,
)
CONTEXT_TOOLS: Final = frozenset({"activate", "deactivate", "pin", "unpin"})
