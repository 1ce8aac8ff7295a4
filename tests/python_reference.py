"""The page docs/reference/python.md, from the signatures and docstrings of the public names.

Signatures are taken from the source, so that annotations read as they are written. A docstring
below a field or a constant describes it.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard

import ctxmgr

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

LINE_LENGTH: Final = 88
"""A longer signature is written with one parameter per line."""

GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Open a client or a store": ("connect", "open_store"),
        "Client and sessions": (
            "Client",
            "LiveSession",
            "Session",
            "Level",
            "PastState",
            "Reconciliation",
            "Window",
        ),
        "Tools": (
            *("Tools", "ToolResult", "Definition", "DEFINITIONS"),
            *("text_part", "toolcall_part", "ToolCallIds"),
            *("IndexedToolCall", "FileOutcome", "FileResult", "FileAccess"),
        ),
        "Prompts": (
            *("Context", "Section", "Block", "Contributor", "Contribution", "Economy", "Prices"),
            *("CompactionRecord", "CompactionTrigger", "Flusher", "FlushRequest"),
            "guide",
        ),
        "Tokens and secrets": (
            *("TokenCounter", "vocabulary", "Vocabulary", "Calibration"),
            *("Secrets", "mask", "MaskedText", "FoundSecret", "Masker"),
        ),
        "Sandboxes": (
            *("start_sandbox", "Sandbox", "Bubblewrap", "Docker", "Host"),
            *("Bind", "Limits", "CommandResult", "Description", "Held"),
            *("MountMapping", "Mounts", "host_filesystem_id"),
            *("container_filesystem_id", "device_filesystem_id"),
        ),
        "Models": (
            *("Model", "Request", "TextDelta", "ToolUse", "AnswerDone", "AnswerPart", "Stop"),
            *("ask", "Question", "TextAnswer", "Usage", "Charge", "Cost", "Ledger"),
            *("PriceList", "ModelPrice"),
        ),
        "Events": (
            *("Listener", "Event", "EventId"),
            *("SessionStarted", "SessionPaused", "SessionResumed", "SetsChanged"),
            *("SystemPromptChanged", "TurnFinished", "ToolCallCreated", "Compacted"),
            *("FileEvent", "FileDiscovered", "FileIndexed", "FileUpdated", "FileDeleted"),
        ),
        "Objects": (
            *("File", "FileState", "ToolCall", "Chat", "Turn", "AssistantMeta", "SystemPrompt"),
            *("SessionRecord", "FilesystemSource", "to_document", "from_document", "KINDS"),
        ),
        "Stores": (
            *("Store", "Put", "Delete", "Match", "AsOf", "Version"),
            *("Commit", "HistoryEntry", "HistoryPage", "FoundPage", "Transaction", "Write"),
            *("Query", "Range", "Order", "Kind", "IdForm", "FieldType", "StoreStatus"),
        ),
        "Limits": (
            *("DOCUMENT_BYTES_MAX", "TRANSACTION_BYTES_MAX", "DEPTH_MAX", "OBJECT_ID_BYTES_MAX"),
            *("INDEXED_TEXT_BYTES_MAX", "OPERATIONS_MAX", "KEY_LENGTH_MAX", "BATCH_MAX"),
            *("PAGE_MAX", "INSTANT_MAX"),
        ),
        "Errors": (
            *("CtxmgrError", "Incorrect", "NotContent", "ExtraMissing", "NewerFormat"),
            *("WindowExceeded", "QuotaExceeded", "NotFound", "Conflict", "Denied", "Unavailable"),
            *("OutcomeUnknown", "ModelUnavailable", "AnswerLost", "Corrupt", "HashMismatch"),
            "BundleDamaged",
        ),
    }
)
"""Every public name, in the order of the page."""

NOTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Client": "Returned by `connect`.",
        "LiveSession": "Returned by `Client.start`, `resume`, `visit` and `fork`.",
        "Session": "Returned by `LiveSession.sets` and `Client.stored_sets`.",
        "PastState": "Returned by `Client.state_as_of`.",
        "Reconciliation": "Returned by `Client.reconciliation`.",
        "Context": "Returned by `LiveSession.context` and `Client.prompt_as_of`.",
        "Bubblewrap": "Implements `Sandbox`.",
        "Docker": "Implements `Sandbox`.",
        "Host": "Implements `Sandbox`.",
    }
)
"""What a docstring does not say, by class. Programs do not construct these by calling them."""

INTERNAL: Final = frozenset(
    {
        *("Client.runtime", "Client.tracking"),
        *("LiveSession.restore", "LiveSession.state", "LiveSession.leave"),
        *("LiveSession.recall", "LiveSession.sandbox"),
        *("LiveSession.note_context_call", "FilesystemSource.to_value"),
    }
)
"""Members that other parts of ctxmgr use, and programs do not."""

METHODS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "Session": frozenset({"level"}),
        "Reconciliation": frozenset({"wait"}),
        "Window": frozenset(),
        "Economy": frozenset(),
        "Mounts": frozenset({"of_host", "of_sandbox", "forward", "reverse"}),
    }
)
"""Of these classes programs call only these methods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A class, function, method, field or constant."""

    name: str
    code: str
    """Its signature, or its annotation and value."""
    text: str
    """Its docstring, as Markdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Described):
    """A public name with what belongs to it."""

    fields: tuple[Described, ...] = ()
    methods: tuple[Described, ...] = ()


def entries() -> dict[str, tuple[Entry, ...]]:
    """Return what the page holds, by group."""
    return {group: tuple(map(_entry, names)) for group, names in GROUPS.items()}


def page() -> str:
    """Return the whole page."""
    lines = [_OPENING]
    for group, described in entries().items():
        lines.append(f"## {group}\n")
        lines += [line for entry in described for line in _lines(entry)]
    return "\n".join(lines)


_OPENING = """# Python

The public names of the package: `from ctxmgr import Tools, connect`.
This page is written by `make docs` from their signatures and docstrings.

Parameters after `*` are passed by name, and `async` functions are awaited.
`Instant` is a time in milliseconds since 1970, UTC.
`Document` is a dict of JSON values with an id (`xt/id`) and a kind (`type`).
`StoredObject` is a `File`, `ToolCall`, `Chat`, `SystemPrompt` or `SessionRecord`.
"""


def _lines(entry: Entry) -> Iterator[str]:
    yield f"### {entry.name}\n"
    yield from _paragraphs(entry)
    if entry.fields:
        yield "| field | description |\n|---|---|"
        yield from (f"| `{_cell(field.code)}` | {_cell(field.text)} |" for field in entry.fields)
        yield ""
    for method in entry.methods:
        yield f"#### {entry.name}.{method.name}\n"
        yield from _paragraphs(method)


def _paragraphs(described: Described) -> Iterator[str]:
    if described.code:
        yield f"```py\n{described.code}\n```\n"
    if described.text:
        yield f"{described.text}\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _entry(name: str) -> Entry:
    value = getattr(ctxmgr, name)
    module = sys.modules[ctxmgr._HOME[name]]
    body = ast.parse(inspect.getsource(module)).body
    if inspect.isclass(value):
        return _class(name, value)
    if inspect.isfunction(value):
        (node,) = (
            statement
            for statement in body
            if isinstance(statement, Function) and statement.name == name
        )
        return Entry(name=name, code=_signature(node, vars(module)), text=_doc(node))
    (described,) = (text for assigned, _, text in _assigned(body, vars(module)) if assigned == name)
    code = f"{name} = {value:_}" if isinstance(value, int) else ""
    return Entry(name=name, code=code, text=described)


def _class(name: str, value: type[Any]) -> Entry:
    node = _class_node(value)
    bases = [base.__name__ for base in value.__bases__ if base.__module__ != "builtins"]
    bases_shown = [base for base in bases if base in {*ctxmgr.__all__, "Protocol", "StrEnum"}]
    owners = [
        owner
        for owner in value.__mro__
        if owner is value
        or (owner.__module__.startswith("ctxmgr") and owner.__name__ not in ctxmgr.__all__)
    ]
    return Entry(
        name=name,
        code=_constructor(name, value, bases_shown),
        text=f"{_doc(node)}\n\n{NOTES.get(name, '')}".strip(),
        fields=_unique(name, (member for owner in owners for member in _fields(owner))),
        methods=_unique(name, (member for owner in owners for member in _methods(owner, name))),
    )


def _unique(owner: str, members: Iterator[Described]) -> tuple[Described, ...]:
    """Leave out what is not for programs; a redefined member keeps its base's description."""
    found: dict[str, Described] = {}
    for member in members:
        if member.name.startswith("_") or f"{owner}.{member.name}" in INTERNAL:
            continue
        known = found.get(member.name, member)
        found[member.name] = known if known.text else replace(known, text=member.text)
    if "Implements" in NOTES.get(owner, ""):  # the protocol describes the others
        return tuple(member for member in found.values() if member.text)
    return tuple(found.values())


def _constructor(name: str, value: type[Any], bases: list[str]) -> str:
    own = "__init__" in vars(value) and not is_dataclass(value)
    if own and not bases and name not in NOTES:
        (node,) = (
            statement
            for statement in _class_node(value).body
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__"
        )
        return f"class {_signature(node, _namespace(value), name=name)}"
    return f"class {name}({', '.join(bases)})" if bases else f"class {name}"


def _fields(owner: type[Any]) -> Iterator[Described]:
    node = _class_node(owner)
    for name, code, text in _assigned(node.body, _namespace(owner)):
        if not code.startswith(f"{name}: ClassVar") or issubclass(owner, BaseException):
            yield Described(name=name, code=code, text=text)
    yield from _attributes(node)
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and "property" in _decorators(method):
            assert method.returns is not None
            code = f"{method.name}: {_unquoted(method.returns)}"
            yield Described(name=method.name, code=code, text=_doc(method))


def _attributes(node: ast.ClassDef) -> Iterator[Described]:
    """Yield public attributes that a constructor sets, typed as written or as its parameters."""
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        given = {
            parameter.arg: parameter.annotation
            for parameter in (*method.args.args, *method.args.kwonlyargs)
        }
        for statement, below in pairwise([*method.body, ast.Pass()]):
            if isinstance(statement, ast.Assign):
                target, annotation = statement.targets[0], None
            elif isinstance(statement, ast.AnnAssign):
                target, annotation = statement.target, statement.annotation
            else:
                continue
            if isinstance(target, ast.Attribute):
                annotation = annotation or given.get(target.attr)
                typed = f": {_unquoted(annotation)}" if annotation is not None else ""
                yield Described(name=target.attr, code=target.attr + typed, text=_text_of(below))


def _methods(owner: type[Any], name: str) -> Iterator[Described]:
    if issubclass(owner, Enum):
        return
    for node in _class_node(owner).body:
        if _is_shown_method(node, name):
            code = _signature(node, _namespace(owner))
            yield Described(name=node.name, code=code, text=_doc(node))


def _is_shown_method(node: ast.stmt, owner: str) -> TypeGuard[Function]:
    if not isinstance(node, Function) or node.name.startswith("_"):
        return False
    return "property" not in _decorators(node) and node.name in METHODS.get(owner, {node.name})


def _assigned(body: list[ast.stmt], names: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Give assigned names, each with its code and the docstring below it."""
    for node, below in pairwise([*body, ast.Pass()]):
        described = _text_of(below)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, _annotated(node, names), described
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, ast.unparse(node), described


def _text_of(statement: ast.stmt) -> str:
    """Return the docstring that a statement is, or nothing."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return _markdown(inspect.cleandoc(str(statement.value.value)))
    return ""


def _annotated(node: ast.AnnAssign, names: Mapping[str, Any]) -> str:
    code = f"{ast.unparse(node.target)}: {_unquoted(node.annotation)}"
    default = node.value
    if isinstance(default, ast.Call) and ast.unparse(default.func) == "field":
        given = {keyword.arg: keyword.value for keyword in default.keywords}
        default = given.get("default")
    return code if default is None else f"{code} = {ast.unparse(_resolved(default, names))}"


def _signature(node: Function, names: Mapping[str, Any], *, name: str | None = None) -> str:
    parts = list(_parameters(node.args, names))
    if parts and parts[0] in {"self", "cls"}:
        del parts[0]
    if "asynccontextmanager" in _decorators(node):
        start, end = f"async with {node.name}(", ") as client"
    else:
        start = f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{name or node.name}("
        end = ")" if node.returns is None or name else f") -> {_unquoted(node.returns)}"
    line = f"{start}{', '.join(parts)}{end}"
    if len(line) <= LINE_LENGTH:
        return line
    return start + "".join(f"\n    {part}," for part in parts) + f"\n{end}"


def _parameters(arguments: ast.arguments, names: Mapping[str, Any]) -> Iterator[str]:
    assert not arguments.posonlyargs
    assert arguments.vararg is None
    assert arguments.kwarg is None
    required = len(arguments.args) - len(arguments.defaults)
    defaults = [None] * required + arguments.defaults
    for argument, default in zip(arguments.args, defaults, strict=True):
        yield _parameter(argument, default, names)
    if arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default, names)


def _parameter(argument: ast.arg, default: ast.expr | None, names: Mapping[str, Any]) -> str:
    code = argument.arg
    if argument.annotation is not None:
        code += f": {_unquoted(argument.annotation)}"
    return code if default is None else f"{code} = {ast.unparse(_resolved(default, names))}"


def _resolved(default: ast.expr, names: Mapping[str, Any]) -> ast.expr:
    """Put the value of a named constant in its place, where it is a number or a text."""
    value = names.get(default.id) if isinstance(default, ast.Name) else None
    return ast.Constant(value) if isinstance(value, str | int | float) else default


def _unquoted(annotation: ast.expr) -> str:
    """Return an annotation as code, without the quotes of names that are defined later."""
    code = ast.unparse(annotation)
    return code if "Literal[" in code else re.sub(r"'([^']*)'", r"\1", code)


def _decorators(node: Function) -> set[str]:
    return {ast.unparse(decorator) for decorator in node.decorator_list}


def _doc(node: ast.ClassDef | Function) -> str:
    return _markdown(ast.get_docstring(node) or "")


def _markdown(text: str) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _namespace(value: type[Any]) -> Mapping[str, Any]:
    return vars(sys.modules[value.__module__])


def _class_node(value: type[Any]) -> ast.ClassDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(node, ast.ClassDef)
    return node
