"""The shape of the package, held by a test: layers, purity, no cycles, one place for each boundary.

Every rule is a function from a source tree to its violations, so that each can be shown to fail on
a tree that breaks it. All imports count: at the top, inside functions and for type checking alike.
"""

import ast
import graphlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

Tree: TypeAlias = dict[str, ast.Module]
"""Module name without ``ctxmgr.`` → its syntax; the package's own ``__init__`` is ``__init__``."""

LAYERS: Final = [
    {"surfaces"},
    {"integrations"},  # may hear what the loop tells, as any user's code does
    {"harness", "bench"},
    {"__init__"},  # the public names: what harness and surfaces may use as any user does
    {"app"},
    {"settings"},
    {"memory", "knowledge", "audit"},
    {"experience", "stores", "sandboxes", "messages", "models"},
    {"core"},
    {"errors"},
]
RANK: Final = {name: -rank for rank, names in enumerate(LAYERS) for name in names}

PURE_IMPORTS: Final = frozenset(
    {
        "abc",
        "base64",
        "binascii",
        "bisect",
        "codecs",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "edn_format",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "html",
        "itertools",
        "json",
        "math",
        "operator",
        "orjson",
        "random",
        "re",
        "splintr",
        "string",
        "struct",
        "textwrap",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
        "weakref",
    }
)
IMPURE_CALLS: Final = frozenset({"open", "print", "input", "exec", "eval", "__import__"})
MUST_BE_PURE: Final = (
    "core.assembly",
    "core.cache_breaks",
    "core.cache_usage",
    "core.calibration",
    "core.canonical",
    "core.collapse",
    "core.documents",
    "core.economy_records",
    "core.economy_walk",
    "core.events",
    "core.generations",
    "core.folding",
    "core.growing",
    "core.hashes",
    "core.lines",
    "core.model",
    "core.objects",
    "core.paging",
    "core.parts",
    "core.plain_walk",
    "core.planner",
    "core.policies",
    "core.prompt_parting",
    "core.prompt_rows",
    "core.prompt_walk",
    "core.prompts",
    "core.recalled",
    "core.search",
    "core.secret_forms",
    "core.secret_values",
    "core.secrets",
    "core.seen_versions",
    "core.sessions",
    "core.sources",
    "core.stream",
    "core.stream_plans",
    "core.stream_turns",
    "core.tokens",
    "core.transactions",
    "core.turns",
    "core.usage",
    "core.vocabularies",
    "messages.anthropic",
    "messages.conversation",
    "messages.openai",
    "messages.recorded",
    "messages.recordings",
    "messages.text",
    "errors",
)
DRIVERS: Final = frozenset({"apsw", "sqlite3", "psycopg"})
HTTP: Final = frozenset(
    {"httpx", "httpcore", "aiohttp", "requests", "urllib3", "starlette", "uvicorn"}
)
AUDIT_MAY_IMPORT: Final = frozenset({"errors", "core.hashes", "core.events"})
HARNESS_MAY_IMPORT: Final = frozenset(
    {
        "__init__",
        "errors",
        "core.assembly",
        "core.cache_usage",
        "core.client",
        "core.documents",
        "core.filesystem_ids",
        "core.live_session",
        "core.model",
        "core.mounts",
        "core.sandbox",
        "core.tokens",
        "core.tools",
        "core.uncut",
    }
)
"""What the docs tell a harness to use; besides ``messages``, ``models`` and ``sandboxes``."""
HARNESS_LAYERS: Final = frozenset({"harness", "messages", "models", "sandboxes", "integrations"})
LIKE_ANY_HARNESS: Final = frozenset({"harness", "integrations"})
FRAMEWORKS: Final = frozenset(
    {"agents", "anthropic", "langchain_core", "langgraph", "openai", "opentelemetry", "pydantic_ai"}
)
"""Packages of the extras: nobody who does not use them has them."""
SHIM_LINES_MAX: Final = 120
CLIENTS_OWN: Final = frozenset({"surroundings"})
"""Attributes that are for the client's parts."""


def layers_point_downward(tree: Tree) -> Iterator[str]:
    for module, target in _own_imports(tree):
        above, below = _layer(module), _layer(target)
        if above != below and RANK.get(above, 0) <= RANK.get(below, 0):
            yield f"{module} imports {target}, which is not below it"


def every_module_has_a_place(tree: Tree) -> Iterator[str]:
    for module in tree:
        if _layer(module) not in RANK:
            yield f"{module} is in no layer"


def modules_are_imported_not_packages(tree: Tree) -> Iterator[str]:
    for module, target in _own_imports(tree):
        if target not in tree or target.endswith(".__init__"):
            yield f"{module} imports {target}, which is no module"


def there_are_no_cycles(tree: Tree) -> Iterator[str]:
    graph: dict[str, set[str]] = {module: set() for module in tree}
    for module, target in _own_imports(tree):
        graph[module].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield " → ".join(error.args[1])


def pure_modules_stay_pure(tree: Tree) -> Iterator[str]:
    for module, syntax in tree.items():
        if not _is_pure(syntax):
            if module in MUST_BE_PURE:
                yield f"{module} does not say that it is pure"
            continue
        for target in _imports(module, syntax, tree):
            inside = target.removeprefix("ctxmgr.")
            if target.startswith("ctxmgr.") and inside in tree and _is_pure(tree[inside]):
                continue
            if not {target, target.split(".")[0]} & PURE_IMPORTS:
                yield f"{module} is pure and imports {target}"
        calls = (node.func for node in ast.walk(syntax) if isinstance(node, ast.Call))
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        yield from (f"{module} is pure and calls {each}" for each in called & IMPURE_CALLS)


def boundaries_have_one_place(tree: Tree) -> Iterator[str]:
    # A benchmark may name what it compares with: a driver or a bare HTTP client is the baseline.
    for module, syntax in tree.items():
        for target in _imports(module, syntax, tree):
            name, layer = target.split(".")[0], _layer(module)
            if name in DRIVERS and layer not in {"stores", "bench"}:
                yield f"{module} names the driver {name}"
            if name in HTTP and layer not in {"stores", "models", "surfaces", "bench"}:
                yield f"{module} names the HTTP library {name}"


def audit_stands_apart(tree: Tree) -> Iterator[str]:
    for module, target in _own_imports(tree):
        if _layer(module) == "audit" != _layer(target) and target not in AUDIT_MAY_IMPORT:
            yield f"{module} imports {target}"
        if _layer(target) == "audit" and _layer(module) not in {"audit", "app"}:
            yield f"{module} imports {target}, which only app may"


def our_harness_is_like_any_other(tree: Tree) -> Iterator[str]:
    """It uses what others can use, so that they can do what it does."""
    for module, target in _own_imports(tree):
        if _layer(module) in LIKE_ANY_HARNESS and not (
            target in HARNESS_MAY_IMPORT or _layer(target) in HARNESS_LAYERS
        ):
            yield f"{module} imports {target}, which is not for harnesses"
    for module, syntax in tree.items():
        if _layer(module) in LIKE_ANY_HARNESS:
            named = {each.attr for each in ast.walk(syntax) if isinstance(each, ast.Attribute)}
            yield from (f"{module} uses {each}" for each in named & CLIENTS_OWN)


def frameworks_are_named_by_their_shims(tree: Tree) -> Iterator[str]:
    """Importing ctxmgr never imports what only an extra installs."""
    for module, syntax in tree.items():
        named = {each.split(".")[0] for each in _imports(module, syntax, tree)}
        if _layer(module) != "integrations":
            yield from (f"{module} imports {each}" for each in named & FRAMEWORKS)


def shims_are_small(tree: Tree) -> Iterator[str]:
    """A shim that grows has begun to be something else."""
    for module, syntax in tree.items():
        length = max((node.end_lineno or 0 for node in syntax.body), default=0)
        if _layer(module) == "integrations" and length >= SHIM_LINES_MAX:
            yield f"{module} has {length} lines"


RULES: Final[tuple[Callable[[Tree], Iterator[str]], ...]] = (
    layers_point_downward,
    every_module_has_a_place,
    modules_are_imported_not_packages,
    there_are_no_cycles,
    pure_modules_stay_pure,
    boundaries_have_one_place,
    audit_stands_apart,
    our_harness_is_like_any_other,
    frameworks_are_named_by_their_shims,
    shims_are_small,
)

VIOLATIONS: Final = (
    (layers_point_downward, "core/client.py", "from ctxmgr.memory.living import Living"),
    (layers_point_downward, "core/client.py", "def late():\n    import ctxmgr.stores.sqlite"),
    (layers_point_downward, "memory/records.py", "from ctxmgr.knowledge.notes import Note"),
    (layers_point_downward, "stores/sqlite.py", "from ctxmgr import open_store"),
    (every_module_has_a_place, "misc/bits.py", ""),
    (modules_are_imported_not_packages, "app.py", "from ctxmgr.core import hashes"),
    (there_are_no_cycles, "core/hashes.py", "from ctxmgr.core.canonical import canonical"),
    (pure_modules_stay_pure, "core/sessions.py", '"""Sessions. Pure."""\nimport time'),
    (pure_modules_stay_pure, "core/sessions.py", '"""Sessions. Pure."""\nopen("x")'),
    (pure_modules_stay_pure, "core/documents.py", '"""Documents."""'),
    (boundaries_have_one_place, "app.py", "import apsw"),
    (boundaries_have_one_place, "core/client.py", "from httpx import AsyncClient"),
    (audit_stands_apart, "experience/log.py", "from ctxmgr.audit.chain import Chain"),
    (audit_stands_apart, "audit/chain.py", "from ctxmgr.core.store import Store"),
    (our_harness_is_like_any_other, "harness/loop.py", "import ctxmgr.core.session_state"),
    (our_harness_is_like_any_other, "harness/loop.py", "x = session.state.surroundings"),
    (our_harness_is_like_any_other, "integrations/it.py", "import ctxmgr.stores.sqlite"),
    (frameworks_are_named_by_their_shims, "app.py", "def late():\n    import langgraph.types"),
    (shims_are_small, "integrations/it.py", "\n" * 119 + "x = 1"),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_its_shape(rule: Callable[[Tree], Iterator[str]]) -> None:
    """The file list is the architecture; a shortcut is noticed in the commit that takes it."""
    tree = _tree(Path(__file__).parent.parent / "ctxmgr")

    assert list(rule(tree)) == []


@pytest.mark.parametrize(("rule", "path", "source"), VIOLATIONS)
def test_a_tree_that_breaks_a_rule_is_noticed(
    rule: Callable[[Tree], Iterator[str]], path: str, source: str, tmp_path: Path
) -> None:
    """A test that cannot fail proves nothing."""
    _write(tmp_path / "core" / "canonical.py", "from ctxmgr.core.hashes import file_hash")
    _write(tmp_path / path, source)

    assert list(rule(_tree(tmp_path))) != []


def _tree(package: Path) -> Tree:
    tree = {}
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        tree[name] = ast.parse(path.read_text(encoding="utf-8"))
    return tree


def _own_imports(tree: Tree) -> Iterator[tuple[str, str]]:
    for module, syntax in tree.items():
        for target in _imports(module, syntax, tree):
            if target == "ctxmgr":
                yield module, "__init__"
            elif target.startswith("ctxmgr."):
                yield module, target.removeprefix("ctxmgr.")


def _imports(module: str, syntax: ast.Module, tree: Tree) -> Iterator[str]:
    for node in ast.walk(syntax):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {each for each in named if each.removeprefix("ctxmgr.") in tree}
            yield from modules or {str(node.module)}


def _is_pure(syntax: ast.Module) -> bool:
    opening = (ast.get_docstring(syntax) or "").partition("\n\n")[0]
    return " Pure." in opening or opening.endswith((" Contract.", "can do about it."))


def _layer(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def _write(path: Path, source: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
