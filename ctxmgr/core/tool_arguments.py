"""What each tool takes, as models give it: checked here, at the edge, and nowhere else.

Unknown arguments are refused, so that a misspelt one is noticed by the model that wrote it.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ctxmgr.errors import Incorrect

BASH_SECONDS: Final = 120.0
"""For one command, unless the model asks for more: a test run, not a server."""

BASH_SECONDS_MAX: Final = 3_600.0
"""The most that a model may ask for."""


RECALL_QUERY_CHARS_MAX: Final = 1_000
"""A question, not a document."""


class Arguments(BaseModel):
    """What all tools have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ObjectArguments(Arguments):
    id: str = Field(description="The id as the list of known objects shows it.", min_length=1)


class ReadArguments(Arguments):
    path: str = Field(min_length=1)
    offset: int = Field(default=1, ge=1, description="The first line, from 1.")
    limit: int | None = Field(default=None, ge=1, description="How many lines; all by default.")


class WriteArguments(Arguments):
    path: str = Field(min_length=1)
    content: str


class EditArguments(Arguments):
    path: str = Field(min_length=1)
    old: str = Field(min_length=1, description="Text that is in the file exactly once.")
    new: str


class LsArguments(Arguments):
    path: str = "."


class GrepArguments(Arguments):
    pattern: str = Field(min_length=1, description="A basic regular expression.")
    path: str = "."


class FindArguments(Arguments):
    path: str = "."
    name: str | None = Field(default=None, description="A shell pattern for the file's name.")


class RecallArguments(Arguments):
    query: str = Field(
        min_length=1, max_length=RECALL_QUERY_CHARS_MAX, description="Words to look for."
    )
    limit: int = Field(default=5, ge=1, le=20, description="How many objects at most.")


class BashArguments(Arguments):
    command: str = Field(min_length=1)
    timeout_s: float = Field(default=BASH_SECONDS, gt=0, le=BASH_SECONDS_MAX)


def read_arguments(model: type[Arguments], args: Mapping[str, Any]) -> Arguments:
    """Check the arguments of a call; ``Incorrect`` names the first that is wrong."""
    try:
        return model.model_validate(dict(args))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"]) or "arguments"
        raise Incorrect(f"{where}: {fault['msg']}") from error
