"""The shape of the package: rooms, purity, boundaries, sizes and names.

A room is a folder, or a module at the root of the package, of ``core`` or of
``surfaces``. ``ROOMS`` says which room may import which; that table is the architecture, and
docs/architecture.md draws it. Every rule is a function from a source tree to its violations, so
that each can be shown to fail on a tree that breaks it. All imports count: at the top, inside
functions and for type checking alike.
"""

import ast
import graphlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import pytest

Tree: TypeAlias = dict[str, ast.Module]
"""Module name without ``ctxmgr.`` → its syntax; the package's own ``__init__`` is ``__init__``."""

ROOT: Final = Path(__file__).parent.parent


def _rooms(names: str) -> frozenset[str]:
    return frozenset(names.split())


_CORE_FOR_LAYERS: Final = _rooms(
    "core.store core.objects core.events core.context core.model errors"
)
"""What a layer may use of the core."""

ROOMS: Final[dict[str, frozenset[str]]] = {
    "errors": _rooms(""),
    # the core, lower rooms first
    "core.append_only": _rooms(""),
    "core.bounded_cache": _rooms(""),
    "core.private_files": _rooms(""),
    "core.collector": _rooms(""),
    "core.store": _rooms("core.append_only errors"),
    "core.model": _rooms("core.store errors"),
    "core.prices": _rooms("core.model"),
    "core.objects": _rooms("core.store core.append_only errors"),
    "core.files": _rooms("core.private_files core.store errors"),
    "core.sandbox": _rooms("core.files errors"),
    "core.discovery": _rooms("errors"),
    "core.secrets": _rooms("core.bounded_cache errors"),
    "core.events": _rooms("core.objects core.store errors"),
    "core.tracking": _rooms("core.files core.objects core.store errors"),
    "core.sessions": _rooms(
        "core.private_files "
        "core.events core.objects core.store core.append_only core.bounded_cache errors"
    ),
    "core.context": _rooms("core.objects core.store core.append_only core.bounded_cache errors"),
    "core.economy": _rooms(
        "core.context core.discovery core.objects core.store core.append_only errors"
    ),
    "core.history": _rooms(
        "core.economy core.context core.sessions core.files core.objects core.store core.model"
        " core.append_only errors"
    ),
    "core.client": _rooms(
        "core.history core.economy core.context core.sessions core.tracking core.events"
        " core.secrets core.discovery core.files core.objects core.store core.model core.sandbox"
        " core.append_only core.collector errors"
    ),
    # technologies
    "stores.edn": _rooms("core.store errors"),
    "stores.sqlite": _rooms("core.private_files core.store core.objects core.append_only errors"),
    "stores.xtdb": _rooms("core.private_files stores.edn core.store core.append_only errors"),
    "stores": _rooms("core.private_files stores.sqlite core.store errors"),
    "sandboxes": _rooms("core.files core.sandbox errors"),
    "messages": _rooms("core.context core.objects core.store core.model errors"),
    "models": _rooms("core.model core.store errors"),
    "recordings": _rooms(
        "messages stores core.client core.history core.model core.objects core.store errors"
    ),
    "audit": _rooms("errors core.objects core.events"),
    # layers to come
    "experience.records": _rooms("core.events errors"),
    "experience.log": _rooms(
        "core.private_files experience.records core.events core.store stores errors"
    ),
    "experience.concepts": _rooms("search stores errors"),
    "experience.lenses": _rooms("experience.concepts search errors"),
    "experience.documents": _rooms("core.store search errors"),
    "experience.tags": _rooms(
        "experience.concepts experience.log experience.records stores errors"
    ),
    "experience.windows": _rooms("experience.log experience.records core.events stores errors"),
    "experience": _CORE_FOR_LAYERS
    | _rooms("experience.concepts experience.documents experience.lenses experience.log")
    | _rooms("experience.records experience.tags experience.windows search stores"),
    "search": _CORE_FOR_LAYERS | _rooms("stores stores.sqlite"),
    "knowledge.config": _rooms("errors"),
    "knowledge.notes": _rooms("knowledge.config core.store errors"),
    "knowledge.indexed_notes": _rooms("knowledge.notes search errors"),
    "knowledge.repository": _rooms(
        "core.private_files knowledge.config knowledge.notes core.model core.store search errors"
    ),
    "knowledge.transcripts": _CORE_FOR_LAYERS
    | _rooms("knowledge.config knowledge.notes knowledge.repository stores"),
    "knowledge.topics": _CORE_FOR_LAYERS | _rooms("knowledge.config knowledge.notes search stores"),
    "knowledge.compiler": _CORE_FOR_LAYERS
    | _rooms("knowledge.config knowledge.notes knowledge.topics search"),
    "knowledge.lifecycle.extractors": _rooms(
        "knowledge.notes knowledge.transcripts core.model core.store errors"
    ),
    "knowledge.lifecycle": _CORE_FOR_LAYERS
    | _rooms("knowledge.config knowledge.notes knowledge.repository knowledge.transcripts")
    | _rooms("knowledge.lifecycle.extractors")
    | _rooms("experience search stores"),
    "knowledge.library": _CORE_FOR_LAYERS
    | _rooms("knowledge.config knowledge.notes knowledge.repository knowledge.transcripts")
    | _rooms("knowledge.indexed_notes")
    | _rooms("knowledge.topics knowledge.compiler knowledge.lifecycle experience search"),
    "knowledge.agent_notes": _rooms(
        "core.context core.store knowledge.notes knowledge.lifecycle knowledge.repository search"
        " errors"
    ),
    "knowledge": _rooms(""),
    "memory.records": _rooms("core.store search errors"),
    "memory.contradictions": _rooms("memory.records search"),
    "memory.tiers": _rooms("memory.records core.store errors"),
    "memory.consolidation": _rooms(
        "memory.contradictions memory.records memory.tiers core.store search errors"
    ),
    "memory.prediction": _rooms("memory.records core.context"),
    "memory.extraction": _rooms("memory.records core.context core.store errors"),
    "memory.learning": _CORE_FOR_LAYERS
    | _rooms("memory memory.contradictions memory.extraction memory.prediction memory.records")
    | _rooms("memory.tiers search"),
    "memory": _CORE_FOR_LAYERS
    | _rooms("memory.consolidation memory.contradictions memory.extraction memory.records")
    | _rooms("memory.prediction memory.tiers search"),
    # composition
    "trust": _rooms("core.private_files errors"),
    "settings": _rooms("trust core.store errors"),
    "store_opening": _rooms(
        "core.private_files settings stores.sqlite stores.xtdb core.objects core.store errors"
    ),
    "client_layers": _rooms(
        "core.private_files settings stores search experience memory memory.learning"
        " memory.prediction memory.records memory.tiers knowledge.agent_notes knowledge.config"
        " knowledge.indexed_notes"
        " knowledge.library knowledge.lifecycle knowledge.notes knowledge.repository"
        " knowledge.transcripts core.client core.context core.economy core.events core.files"
        " core.history core.model core.objects core.secrets core.store core.tracking errors"
    ),
    "client_opening": _rooms(
        "client_layers settings audit memory.records knowledge.library knowledge.agent_notes"
        " experience experience.lenses messages core.client core.context core.events core.files"
        " core.history core.model core.sandbox core.secrets core.sessions core.store core.tracking"
        " errors"
    ),
    "app": _rooms(
        "client_opening client_layers store_opening core.private_files settings audit experience"
        " experience.lenses"
        " knowledge.agent_notes knowledge.config knowledge.library knowledge.lifecycle"
        " knowledge.notes knowledge.repository knowledge.topics memory memory.learning"
        " memory.records models search stores core.client core.context core.economy core.events"
        " core.history core.model core.objects core.prices core.sandbox core.secrets core.sessions"
        " core.store errors"
    ),
    "__init__": _rooms(
        "app sandboxes messages core.client core.context core.economy core.events core.files"
        " core.history core.model core.objects core.prices core.sandbox core.secrets"
        " core.sessions core.store errors"
    ),
    # what users run
    "harness": _rooms(
        "__init__ experience experience.records knowledge.library sandboxes messages core.client"
        " core.context core.model core.prices core.store errors"
    ),
    "harness.demo": _rooms(
        "harness __init__ experience sandboxes messages core.client core.context core.economy"
        " core.files"
        " core.model core.sandbox core.store errors knowledge.library memory memory.records"
    ),
    "proxy.wire": _rooms("core.objects errors"),
    "proxy": _rooms(
        "proxy.wire core.bounded_cache core.context core.discovery core.economy core.model"
        " core.objects core.store errors"
    ),
    "proxy.server": _rooms(
        "core.private_files proxy core.economy core.history core.model core.store errors"
    ),
    "proxy.recording": _rooms(
        "proxy proxy.server proxy.wire messages core.client core.model core.objects core.sessions"
        " core.store errors"
    ),
    "bench": _rooms(""),
    "bench.stores": _rooms(
        "bench settings stores.edn stores.sqlite stores.xtdb core.objects core.store errors"
    ),
    "bench.core": _rooms(
        "bench bench.stores app stores.sqlite stores.xtdb core.client core.context core.economy"
        " core.files core.objects core.store core.tracking errors"
    ),
    "bench.economy": _rooms(
        "bench app messages recordings core.client core.context core.economy core.objects"
        " core.secrets core.sessions core.store errors"
    ),
    "bench.proxy": _rooms(
        "bench bench.economy app messages proxy core.context core.economy core.model core.objects"
        " errors"
    ),
    "bench.surfaces": _rooms(
        "bench bench.core __init__ search stores stores.sqlite core.append_only core.client"
        " core.context core.files core.history core.objects core.sessions core.store errors"
        " app integrations integrations.langgraph recordings"
    ),
    "bench.audit": _rooms("bench audit core.events errors"),
    "bench.knowledge": _rooms(
        "bench knowledge.notes knowledge.repository knowledge.topics search stores core.store"
        " core.context knowledge.compiler knowledge.config errors"
    ),
    "bench.memory": _rooms(
        "bench bench.knowledge app memory memory.consolidation memory.contradictions"
        " memory.extraction memory.learning memory.prediction memory.records memory.tiers search"
        " recordings core.client core.context core.objects core.store errors"
    ),
    "bench.experience": _rooms(
        "bench experience.log experience.records experience.windows core.events stores errors"
    ),
    "integrations": _rooms("__init__ harness messages core.collector core.history core.store"),
    "integrations.langgraph": _rooms("integrations __init__ core.collector core.store errors"),
    "integrations.setup": _rooms("core.private_files errors"),
    "integrations.agents": _rooms(
        "core.private_files __init__ core.discovery core.model core.store errors"
    ),
    # surfaces
    "surfaces.operation": _rooms("errors"),
    "surfaces.arguments": _rooms("surfaces.operation errors"),
    "surfaces.encoding": _rooms("core.objects core.store errors"),
    "surfaces.error_answers": _rooms("errors"),
    "surfaces.access_tokens": _rooms("core.private_files errors"),
    "surfaces.uvicorn_server": _rooms(""),
    "surfaces.views": _rooms(
        "surfaces.operation app settings harness messages core.append_only core.client core.context"
        " core.events core.files core.history core.model core.objects core.prices core.sessions"
        " core.store core.tracking errors"
    ),
    "surfaces.views.store": _rooms("surfaces.views core.sessions core.store errors"),
    "surfaces.scopes": _rooms(
        "surfaces.views core.events core.objects core.sessions core.store errors"
    ),
    "surfaces.local_state": _rooms(
        "core.objects surfaces.scopes app settings trust stores.sqlite core.files core.store errors"
    ),
    "surfaces.spooled_events": _rooms(
        "surfaces.local_state integrations.agents app settings stores.sqlite core.store errors"
    ),
    "surfaces.operations": _rooms(
        "core.private_files "
        "surfaces.operation surfaces.views surfaces.views.store surfaces.scopes surfaces.encoding"
        " surfaces.access_tokens"
        " surfaces.local_state"
        " __init__ app settings trust bench experience experience.records knowledge.library"
        " harness harness.demo integrations integrations.agents models proxy.server"
        " recordings sandboxes"
        " stores.sqlite stores.xtdb core.client core.files core.history core.model core.objects"
        " core.prices core.sessions core.store errors"
    ),
    "surfaces.operations.layers": _rooms(
        "core.model core.prices "
        "surfaces.operation surfaces.access_tokens surfaces.encoding surfaces.views"
        " surfaces.views.store"
        " app settings search"
        " experience.concepts experience.documents experience.records experience.windows errors"
        " core.sessions"
        " core.store memory memory.learning memory.prediction memory.records memory.tiers"
        " knowledge.topics"
        " knowledge.notes knowledge.repository"
        " knowledge.config"
        " knowledge.lifecycle"
    ),
    "surfaces.operations.agents": _rooms(
        "surfaces.operation surfaces.spooled_events surfaces.local_state surfaces.views"
        " surfaces.http surfaces.uvicorn_server __init__ proxy proxy.server"
        " proxy.recording"
        " app settings integrations.agents integrations.setup stores.sqlite"
        " core.bounded_cache core.client core.model messages"
        " core.objects core.store errors"
    ),
    "surfaces.http": _rooms(
        "surfaces.spooled_events"
        " surfaces.operation surfaces.arguments surfaces.encoding surfaces.error_answers"
        " surfaces.access_tokens surfaces.scopes surfaces.uvicorn_server surfaces.views __init__"
        " app settings core.context"
        " core.events core.objects core.store errors"
    ),
    "surfaces.mcp": _rooms(
        "surfaces.spooled_events integrations.agents"
        " surfaces.operation surfaces.arguments surfaces.encoding surfaces.error_answers"
        " surfaces.scopes surfaces.local_state surfaces.uvicorn_server surfaces.views __init__ app"
        " core.files core.objects core.secrets core.sessions"
        " core.store errors"
    ),
    "surfaces.catalogue": _rooms(
        "surfaces.operations surfaces.operations.agents surfaces.operations.layers"
        " surfaces.http surfaces.mcp"
        " surfaces.operation app errors"
    ),
    "surfaces.terminal": _rooms(
        "surfaces.spooled_events integrations.agents"
        " surfaces.catalogue surfaces.operation surfaces.arguments surfaces.encoding"
        " surfaces.error_answers surfaces.views surfaces.views.store __init__ app settings"
        " harness.demo core.history"
        " core.store errors"
    ),
}
"""Each room and the rooms it may import."""

AUDIT_MODULES: Final = frozenset({"errors", "core.objects.hashes"})
"""What the audit log may import besides ``core.events``."""

ROOM_FILES_MAX: Final = 16

SMALL_ROOMS: Final = frozenset(
    {"core.append_only", "core.bounded_cache", "core.collector", "core.private_files"}
    | {"surfaces.access_tokens", "surfaces.arguments"}
    | {"surfaces.encoding", "surfaces.error_answers", "surfaces.operation", "surfaces.scopes"}
    | {"surfaces.uvicorn_server"}
)
"""Single modules that the map leaves out."""

PURE_ROOMS: Final = frozenset(
    {"core.objects", "core.context", "core.discovery", "core.secrets", "experience.records"}
)
"""Rooms in which every module is pure."""
PURE_MODULES: Final = frozenset(
    {
        "errors",
        "core.append_only",
        "core.bounded_cache",
        "core.economy.folding",
        "core.economy.planner",
        "core.economy.policy",
        "core.economy.records",
        "core.economy.stream",
        "core.economy.stream_turns",
        "core.economy.summary",
        "core.events.derive",
        "core.events.events",
        "core.history.cache_breaks",
        "core.history.prompt_rows",
        "core.history.rebuild",
        "core.history.shown_versions",
        "core.history.turn_records",
        "core.model",
        "core.prices",
        "core.sessions.collapse",
        "core.sessions.sets",
        "core.store.canonical",
        "core.store.documents",
        "core.store.queries",
        "core.store.search_index",
        "core.store.transactions",
        "core.tracking.index_plan",
        "messages.anthropic",
        "messages.answers",
        "messages.forms",
        "messages.openai",
        "messages.text",
        "recordings.formats",
        "recordings.recorder",
    }
)
"""Single modules that have to stay pure."""
IMPURE_IN_PURE_ROOMS: Final = {
    "core.context.contributors": "asks the layers for text, under a deadline",
    "core.context.flushes": "asks the layers to save, under a deadline",
    "core.context.grammars": "imports the installed grammars",
}
PURE_IMPORTS: Final = frozenset(
    [
        "abc",
        "base64",
        "binascii",
        "bisect",
        "calendar",
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
        "ruamel",
        "splintr",
        "string",
        "struct",
        "textwrap",
        "tomllib",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
        "weakref",
        "zlib",
    ]
)
IMPURE_CALLS: Final = frozenset({"open", "print", "input", "exec", "eval", "__import__"})

DRIVERS: Final = frozenset({"apsw", "duckdb", "sqlite3", "psycopg"})
HTTP: Final = frozenset(
    {"httpx", "httpcore", "aiohttp", "requests", "urllib3", "starlette", "uvicorn"}
)
SIGNATURES: Final = "cryptography"
"""Installed by the extra ``audit``."""

FRAMEWORKS: Final = frozenset(
    {"agents", "anthropic", "langchain_core", "langgraph", "openai", "opentelemetry", "pydantic_ai"}
)
"""Packages of the extras: only users of the extra have them."""

SAME_CLASS_NAMES: Final[dict[str, str]] = {}
"""Class names that several modules share, each with the reason."""

CALLED_FROM_OUTSIDE: Final = {
    "capture_signals": "uvicorn",
    "convert": "click",
    "delete_thread": "LangGraph",
    "format_commands": "click",
    "get_next_version": "LangGraph",
    "make_context": "click",
    "get_tuple": "LangGraph",
    "on_any_event": "watchdog",
    "on_event": "watchdog",
    "on_queue_overflow": "watchdog",
    "on_watch_deleted": "watchdog",
    "pop_item": "OpenAI Agents SDK",
    "put_writes": "LangGraph",
    "settings_customise_sources": "pydantic-settings",
}
"""Names that nothing in the repository uses but tests, each with who calls it."""


def rooms_import_what_the_table_allows(tree: Tree) -> Iterator[str]:
    for module, target in _own_imports(tree):
        room, other = _room(module), _room(target)
        if room != other and other not in ROOMS.get(room, ()):
            yield f"{module} imports {target}, which {room} may not"


def every_module_has_a_room(tree: Tree) -> Iterator[str]:
    for module in tree:
        if _room(module) not in ROOMS:
            yield f"{module} is in no room of the table"


def rooms_hold_few_files(tree: Tree) -> Iterator[str]:
    """A folder of more than sixteen files usually holds two subjects."""
    folders = Counter(module.rpartition(".")[0] for module in tree)
    for folder, count in folders.items():
        if count > ROOM_FILES_MAX:
            yield f"{folder} holds {count} modules"


def modules_are_imported_not_packages(tree: Tree) -> Iterator[str]:
    for module, target in _own_imports(tree):
        if target not in tree:
            yield f"{module} imports {target}, which is not a module"


def modules_do_not_import_each_other_in_a_circle(tree: Tree) -> Iterator[str]:
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
            if _must_be_pure(module):
                yield f"{module} does not say that it is pure"
            continue
        for target in _imports(module, syntax, tree):
            inside = target.removeprefix("ctxmgr.")
            if target.startswith("ctxmgr.") and inside in tree and _is_pure(tree[inside]):
                continue
            if not {target, target.split(".")[0]} & PURE_IMPORTS:
                yield f"{module} is pure and imports {target}"
        calls = (node.func for node in _nodes(syntax) if isinstance(node, ast.Call))
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        yield from (f"{module} is pure and calls {name}" for name in called & IMPURE_CALLS)


def boundaries_have_one_place(tree: Tree) -> Iterator[str]:
    # A benchmark may name what it compares with: a driver, a bare HTTP client or a framework.
    for module, syntax in tree.items():
        for target in _imports(module, syntax, tree):
            name, layer = target.split(".")[0], _layer(module)
            if name in DRIVERS and layer not in {"stores", "bench"}:
                yield f"{module} names the driver {name}"
            if name in HTTP and layer not in {"stores", "models", "proxy", "surfaces", "bench"}:
                yield f"{module} names the HTTP library {name}"
            if name == SIGNATURES and module != "audit.keys":
                yield f"{module} imports {name}, which only an extra installs"
            if name in FRAMEWORKS and layer not in {"integrations", "bench"}:
                yield f"{module} imports {name}, which only an extra installs"


def audit_stays_apart(tree: Tree) -> Iterator[str]:
    """000-R100, 000-R174: no import leads from what an agent can reach to the audit log.

    ``client_opening`` and ``app`` open the log; nothing that runs an agent's tools imports them.
    """
    for module, target in _own_imports(tree):
        if _layer(module) == "audit" != _layer(target) and not (
            target in AUDIT_MODULES or _room(target) == "core.events"
        ):
            yield f"{module} imports {target}"
        allowed = (
            _layer(module) in {"audit", "app", "client_opening"} or _room(module) == "bench.audit"
        )
        if _layer(target) == "audit" and not allowed:
            yield f"{module} imports {target}, which only the composition root may"
    graph: dict[str, set[str]] = {module: set() for module in tree}
    for module, target in _own_imports(tree):
        graph[module].add(target)
    for module in tree:
        if _runs_tools(module):
            path = _import_path(graph, module, lambda target: _layer(target) == "audit")
            if path:
                yield "an agent can reach the audit log: " + " → ".join(path)


def one_class_name_means_one_thing(tree: Tree) -> Iterator[str]:
    homes = defaultdict(set)
    for module, syntax in tree.items():
        for node in _nodes(syntax):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(module)
    for name, modules in homes.items():
        if len(modules) > 1 and name not in SAME_CLASS_NAMES:
            yield f"{name} is a class in {', '.join(sorted(modules))}"


def something_besides_tests_uses_it(tree: Tree) -> Iterator[str]:
    """Each function, class and constant is used in the package, or shown in docs or examples."""
    used = _names_in_docs_and_programs() | {"main"}
    for syntax in tree.values():
        used |= _names_used(syntax)
    for module, syntax in tree.items():
        for name in _names_defined(syntax):
            if name not in used and name not in CALLED_FROM_OUTSIDE:
                yield f"{module}.{name} is used by tests alone, or by nothing"


RULES: Final[tuple[Callable[[Tree], Iterator[str]], ...]] = (
    rooms_import_what_the_table_allows,
    every_module_has_a_room,
    rooms_hold_few_files,
    modules_are_imported_not_packages,
    modules_do_not_import_each_other_in_a_circle,
    pure_modules_stay_pure,
    boundaries_have_one_place,
    audit_stays_apart,
    one_class_name_means_one_thing,
    something_besides_tests_uses_it,
)

_PURE_WITH_TIME: Final = '"""Sets. Pure."""\nimport time'
_PURE_WITH_OPEN: Final = '"""Sets. Pure."""\nopen("x")'
_LATE_STORE: Final = "def late():\n    import ctxmgr.stores.sqlite.store"

VIOLATIONS: Final = (
    (rooms_import_what_the_table_allows, "core/client/x.py", "import ctxmgr.memory.living"),
    (rooms_import_what_the_table_allows, "core/client/x.py", _LATE_STORE),
    (rooms_import_what_the_table_allows, "core/objects/x.py", "import ctxmgr.core.sessions.sets"),
    (rooms_import_what_the_table_allows, "memory/records.py", "import ctxmgr.knowledge.notes"),
    (rooms_import_what_the_table_allows, "memory/records.py", "import ctxmgr.core.client.client"),
    (rooms_import_what_the_table_allows, "stores/sqlite/x.py", "from ctxmgr import open_store"),
    (rooms_import_what_the_table_allows, "harness/loop.py", "import ctxmgr.stores.sqlite.store"),
    (every_module_has_a_room, "misc/bits.py", ""),
    (every_module_has_a_room, "core/bits.py", ""),
    (modules_are_imported_not_packages, "app.py", "from ctxmgr.core.objects import absent"),
    (
        modules_do_not_import_each_other_in_a_circle,
        "core/objects/hashes.py",
        "from ctxmgr.core.store.canonical import canonical",
    ),
    (pure_modules_stay_pure, "core/sessions/sets.py", _PURE_WITH_TIME),
    (pure_modules_stay_pure, "core/sessions/sets.py", _PURE_WITH_OPEN),
    (pure_modules_stay_pure, "core/store/documents.py", '"""Documents."""'),
    (pure_modules_stay_pure, "core/objects/new.py", '"""A sixth type."""'),
    (boundaries_have_one_place, "app.py", "import apsw"),
    (boundaries_have_one_place, "core/client/client.py", "from httpx import AsyncClient"),
    (boundaries_have_one_place, "app.py", "def late():\n    import langgraph.types"),
    (audit_stays_apart, "experience/log.py", "from ctxmgr.audit.chain import Chain"),
    (audit_stays_apart, "audit/chain.py", "from ctxmgr.core.objects.codec import KINDS"),
    (audit_stays_apart, "core/client/x.py", "def late():\n    import ctxmgr.audit.log"),
    (audit_stays_apart, "core/client/x.py", "import ctxmgr.app"),
    (one_class_name_means_one_thing, "core/files/x.py", "class Twin: ..."),
    (something_besides_tests_uses_it, "core/files/x.py", "def unheard_of(): ..."),
    (
        something_besides_tests_uses_it,
        "core/files/x.py",
        "class _A:\n    def unheard_of(self): ...",
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_its_shape(rule: Callable[[Tree], Iterator[str]]) -> None:
    """The folder list is the architecture; a violation is detected in the commit that adds it."""
    assert list(rule(_tree(ROOT / "ctxmgr"))) == []


@pytest.mark.parametrize(("rule", "path", "source"), VIOLATIONS)
def test_a_tree_that_breaks_a_rule_is_detected(
    rule: Callable[[Tree], Iterator[str]], path: str, source: str, tmp_path: Path
) -> None:
    """A rule that cannot fail proves nothing."""
    _write(tmp_path / "core/store/canonical.py", "from ctxmgr.core.objects.hashes import file_hash")
    _write(tmp_path / "core/discovery/twin.py", '"""Twins. Pure."""\nclass Twin: ...')
    _write(tmp_path / "audit/log.py", "")
    _write(tmp_path / "app.py", "def late():\n    import ctxmgr.audit.log")
    _write(tmp_path / path, source)

    assert list(rule(_tree(tmp_path))) != []


def test_a_folder_with_many_files_is_detected(tmp_path: Path) -> None:
    """Folders become unmanageable one file at a time."""
    for number in range(ROOM_FILES_MAX + 1):
        _write(tmp_path / "core" / "files" / f"file_{number}.py", "")

    assert list(rooms_hold_few_files(_tree(tmp_path))) == ["core.files holds 17 modules"]


def test_the_table_has_no_circle() -> None:
    """Two rooms that may import each other are one room."""
    graphlib.TopologicalSorter(ROOMS).prepare()


def test_the_map_names_every_room() -> None:
    """Readers look for the right folder on the architecture page."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = page.split("```text", 1)[1].split("```", 1)[0]
    rooms = {_room(module) for module in _tree(ROOT / "ctxmgr")}

    missing = {
        room
        for room in rooms - SMALL_ROOMS
        if not re.search(rf"\b{re.escape(room.rpartition('.')[2])}\b", drawn)
    }

    assert missing == set()


def test_no_exception_outlives_its_reason() -> None:
    """An exception is removed with the code it was made for."""
    tree = _tree(ROOT / "ctxmgr")
    classes = Counter(
        node.name
        for syntax in tree.values()
        for node in _nodes(syntax)
        if isinstance(node, ast.ClassDef)
    )
    defined = {name for syntax in tree.values() for name in _names_defined(syntax)}

    assert {name for name in SAME_CLASS_NAMES if classes[name] < 2} == set()
    assert set(CALLED_FROM_OUTSIDE) - defined == set()
    assert set(IMPURE_IN_PURE_ROOMS) | set(PURE_MODULES) <= set(tree)


@cache
def _tree(package: Path) -> Tree:
    tree = {}
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        if name == "__init__" or path.name != "__init__.py":
            tree[name] = ast.parse(path.read_text(encoding="utf-8"))
    return tree


@cache
def _nodes(syntax: ast.AST) -> tuple[ast.AST, ...]:
    """Return every node; a module is asked for them a dozen times."""
    return tuple(ast.walk(syntax))


def _own_imports(tree: Tree) -> Iterator[tuple[str, str]]:
    for module, syntax in tree.items():
        for target in _imports(module, syntax, tree):
            if target == "ctxmgr":
                yield module, "__init__"
            elif target.startswith("ctxmgr."):
                yield module, target.removeprefix("ctxmgr.")


def _imports(module: str, syntax: ast.Module, tree: Tree) -> Iterator[str]:
    for node in _nodes(syntax):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in named if name.removeprefix("ctxmgr.") in tree}
            yield from modules or {str(node.module)}


def _names_defined(syntax: ast.Module) -> Iterator[str]:
    """Functions, classes and constants of a module, and the methods of its classes."""
    for node in syntax.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.ClassDef():
                yield node.name
                yield from _methods(node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _methods(node: ast.ClassDef) -> Iterator[str]:
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not (
            inner.name.startswith("__") and inner.name.endswith("__")
        ):
            yield inner.name


def _names_used(syntax: ast.Module) -> set[str]:
    used = set()
    for node in _nodes(syntax):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                used.add(name)
            case ast.Constant(value=str(text)) if text.isidentifier() or "[" in text:
                used.update(re.findall(r"\w+", text))  # a forward reference, or given to getattr
    return used


@cache
def _names_in_docs_and_programs() -> set[str]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    programs = [*(ROOT / "examples").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")]
    return {
        name
        for path in (*pages, *programs)
        for name in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }


def _runs_tools(module: str) -> bool:
    """Whether an agent's tool calls are run by this module, or its prompts and answers handled."""
    return _layer(module) in {"core", "recordings", "sandboxes", "messages", "models", "stores"}


def _import_path(
    graph: dict[str, set[str]], start: str, found: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return the shortest way from a module to one that is looked for, over any imports."""
    ways, seen = [(start,)], {start}
    for way in ways:
        if found(way[-1]):
            return way
        new = sorted(graph.get(way[-1], set()) - seen)
        seen.update(new)
        ways += [(*way, target) for target in new]
    return ()


def _must_be_pure(module: str) -> bool:
    in_a_pure_room = _room(module) in PURE_ROOMS and module not in IMPURE_IN_PURE_ROOMS
    return in_a_pure_room or module in PURE_MODULES


def _is_pure(syntax: ast.Module) -> bool:
    opening = (ast.get_docstring(syntax) or "").partition("\n\n")[0]
    return " Pure." in opening or opening.endswith((" Contract.", "can do about it."))


def _room(module: str) -> str:
    folder, _, _ = module.rpartition(".")
    return folder if folder not in {"", "core", "knowledge", "surfaces"} else module


def _layer(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def _write(path: Path, source: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
