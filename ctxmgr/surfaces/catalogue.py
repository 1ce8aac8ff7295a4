"""What an operation is, for every surface that offers it. Touches nothing.

    name        -> `ctxmgr NAME`; two words are a group and its command
    parameters  -> arguments (positional) and flags (keyword-only), from run's signature
    docstring   -> help: the first line says what it does
    writes      -> for surfaces that must refuse to write

A parameter is annotated ``Annotated[TYPE, Param("help")]``. The types are text, integer, boolean,
path, one of some words (``Literal``), or a tuple of texts for any number of them.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

STREAMED: Final = MappingProxyType({"streamed": True})
"""Metadata of a result's field that a person has seen already; programs are given it."""

ParameterType: TypeAlias = type[str] | type[int] | type[bool] | type[Path] | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that ctxmgr can do."""

    run: Callable[..., Awaitable[Any]]
    """Takes the ``App`` first; returns a value that surfaces show or encode."""
    name: str
    writes: bool
    example: str
    """A command line to copy."""
    uses_store: bool = True
    """Takes ``--store``."""
    streams: bool = False
    """Shows what it does as it goes, in place of a line of progress."""
    succeeded: Callable[[Any], bool] = lambda _: True
    """Judges the result of an operation that can end without success and without an error."""
    failure: int | None = None
    """The exit code of every failure, for a caller who gives the usual ones another meaning."""
    interrupted: Callable[[Any], bool] = lambda _: False
    """Tells whether the result is of an operation that was interrupted and ended well."""

    @property
    def help(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def parameters(self) -> tuple["Parameter", ...]:
        """What the caller gives, in the order of the signature."""
        return _parameters(self.run)


@dataclass(frozen=True, slots=True)
class Param:
    """What a signature cannot say about a parameter."""

    help: str
    metavar: str | None = None
    instant: bool = False
    """An integer that people write as a date: UTC milliseconds, or ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    """As ``run`` takes it."""
    type: ParameterType
    """A tuple lists the words to choose from."""
    many: bool
    positional: bool
    required: bool
    default: Any
    param: Param

    @property
    def shown_name(self) -> str:
        """As surfaces name it: a word that Python keeps for itself ends with ``_`` in ``run``."""
        return self.name.rstrip("_")


@cache
def _parameters(run: Callable[..., Awaitable[Any]]) -> tuple[Parameter, ...]:
    """Read a signature, which never changes: a server asks for it several times in every call."""
    given = list(inspect.signature(run).parameters.values())[1:]
    return tuple(_parameter(each) for each in given)


def _parameter(given: inspect.Parameter) -> Parameter:
    annotated, param = get_args(given.annotation)
    kind, many = _type(annotated)
    required = given.default is inspect.Parameter.empty
    return Parameter(
        name=given.name,
        type=kind,
        many=many,
        positional=given.kind is not inspect.Parameter.KEYWORD_ONLY,
        required=required,
        default=None if required else given.default,
        param=param,
    )


def _type(annotation: Any) -> tuple[ParameterType, bool]:
    if get_origin(annotation) in (UnionType, Union):
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    if get_origin(annotation) is Literal:
        return get_args(annotation), False
    if get_origin(annotation) is tuple:
        return str, True
    assert annotation in (str, int, bool, Path), annotation
    kind: ParameterType = annotation
    return kind, False
