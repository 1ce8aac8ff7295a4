"""An operation and its parameters, as every surface reads them. No I/O.

    name        -> `ctxmgr NAME`, `POST /NAME`, MCP tool NAME; two words are a group and its command
    group       -> `ctxmgr GROUP NAME`, for a name that HTTP and MCP have without the group
    path        -> `POST PATH`, for a path that a requirement names
    tool        -> MCP tool TOOL, for a name that agents know better
    parameters  -> arguments (positional) and flags (keyword-only), from run's signature
    docstring   -> help: the first line says what it does
    writes      -> for surfaces that must refuse to write

A parameter is annotated ``Annotated[TYPE, Param("help")]``. The types are ``str``, ``int``,
``float``, ``bool``, ``Path``, ``Literal`` of some words, or ``tuple[str, ...]`` for any number of
values.
"""

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

STREAMED: Final = MappingProxyType({"streamed": True})
"""Metadata of a result field that was already printed while the operation ran; JSON has it."""

DETAIL: Final = MappingProxyType({"detail": True})
"""Metadata of a result field that a list in a terminal leaves out, so that the others fit."""

_IN_PATH: Final = re.compile(r"\{(\w+)\}")

ParameterType: TypeAlias = (
    type[str] | type[int] | type[float] | type[bool] | type[Path] | tuple[str, ...]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that ctxmgr can do."""

    run: Callable[..., Awaitable[Any]]
    """Takes the ``App`` first; returns a value that surfaces print or encode."""
    name: str
    writes: bool
    example: str
    """A command line to copy."""
    group: str | None = None
    """The command's group, if HTTP and MCP have the name alone; else it is part of the name."""
    path: str | None = None
    """The path in the HTTP API, if it is not the name; ``{NAME}`` in it is a parameter."""
    tool: str | None = None
    """The name of the MCP tool, if it is not the name."""
    uses_store: bool = True
    """Takes ``--store``."""
    streams: bool = False
    """Prints its own output while it runs, in place of a progress line."""
    json_lines: bool = False
    """With --json, every part that it shows while it runs is a line of JSON."""
    succeeded: Callable[[Any], bool] = lambda _: True
    """Whether a result is a success; some operations fail without an error."""
    exit_code: Callable[[Any], int] | None = None
    """The exit code of a result, for a command that runs another program."""
    failure: int | None = None
    """The exit code of every failure, for callers that give the usual codes another meaning."""
    interrupted: Callable[[Any], bool] = lambda _: False
    """Whether the result is of an operation that was interrupted and ended cleanly."""
    text: Callable[[Any], str] | None = None
    """The result as people and agents read it, printed unchanged; by default, a table or JSON."""

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command: its group, if any, and its own name."""
        return (*([self.group] if self.group else []), *self.name.split())

    @property
    def help(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def parameters(self) -> tuple["Parameter", ...]:
        """The caller's parameters, in the order of the signature."""
        return _parameters(self.run)

    @property
    def looks_here(self) -> bool:
        """Whether a command looks for notes in the person's current folder."""
        return any(parameter.param.here for parameter in self.parameters)

    @property
    def remote_parameters(self) -> tuple["Parameter", ...]:
        """The parameters that HTTP and MCP take: all but those of the command line alone."""
        return tuple(parameter for parameter in self.parameters if not parameter.param.local)

    @property
    def path_names(self) -> frozenset[str]:
        """The public names of parameters that are part of the path in the HTTP API."""
        return frozenset(_IN_PATH.findall(self.path or ""))


@dataclass(frozen=True, slots=True)
class Param:
    """What the signature does not say about a parameter."""

    help: str
    metavar: str | None = None
    instant: bool = False
    """An instant: UTC milliseconds, or ISO 8601."""
    former: str | None = None
    """An earlier name, which is still accepted; not of an argument on the command line."""
    or_session: bool = False
    """Names an object or a whole session; on a server of one session it may be left out."""
    local: bool = False
    """Only on the command line: it grants access to this machine, which no caller elsewhere may."""
    part_of: tuple[str, str] | None = None
    """In a JSON body it is a member of an object: the names of the object and the member."""
    here: bool = False
    """On the command line, the folder of notes that the person is in is a default."""


Limit = Annotated[int, Param("At most this many.")]
Cursor = Annotated[str | None, Param("The cursor of the previous page.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    """The name in the signature of ``run``."""
    type: ParameterType
    """A tuple lists the allowed words."""
    many: bool
    positional: bool
    required: bool
    default: Any
    param: Param

    @property
    def public_name(self) -> str:
        """The name on every surface: a Python keyword ends with ``_`` in ``run``."""
        return self.name.rstrip("_")


@cache
def _parameters(run: Callable[..., Awaitable[Any]]) -> tuple[Parameter, ...]:
    """Read a signature, once: a server needs it several times in every call."""
    parameters = list(inspect.signature(run).parameters.values())[1:]
    return tuple(_parameter(parameter) for parameter in parameters)


def _parameter(parameter: inspect.Parameter) -> Parameter:
    annotated, param = get_args(parameter.annotation)
    kind, many = _type(annotated)
    required = parameter.default is inspect.Parameter.empty
    return Parameter(
        name=parameter.name,
        type=kind,
        many=many,
        positional=parameter.kind is not inspect.Parameter.KEYWORD_ONLY,
        required=required,
        default=None if required else parameter.default,
        param=param,
    )


def _type(annotation: Any) -> tuple[ParameterType, bool]:
    if get_origin(annotation) in (UnionType, Union):
        (annotation,) = (member for member in get_args(annotation) if member is not NoneType)
    if get_origin(annotation) is Literal:
        return get_args(annotation), False
    if get_origin(annotation) is tuple:
        return str, True
    assert annotation in (str, int, float, bool, Path), annotation
    kind: ParameterType = annotation
    return kind, False
