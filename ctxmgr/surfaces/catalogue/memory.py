"""The operations of living memory."""

from typing import Final

from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.operations.layers.agent_tools import memory_remember
from ctxmgr.surfaces.operations.layers.memory import (
    memory_add,
    memory_assemble,
    memory_contradictions,
    memory_edit,
    memory_expand,
    memory_feedback,
    memory_forget,
    memory_history,
    memory_list,
    memory_resolve,
    memory_restore,
    memory_search,
    memory_show,
)
from ctxmgr.surfaces.operations.layers.memory_learning import memory_learn, memory_refused
from ctxmgr.surfaces.operations.layers.memory_transfer import (
    memory_export,
    memory_import,
    memory_purge,
    memory_share,
    memory_unshare,
)
from ctxmgr.surfaces.operations.layers.memory_upkeep import (
    memory_consolidate,
    memory_predict,
    memory_why,
)

MEMORY_OPERATIONS: Final = (
    Operation(
        run=memory_add,
        name="memory add",
        path="/v1/memory/add",
        writes=True,
        example='ctxmgr memory add "test runner" pytest --kind decision',
    ),
    Operation(
        run=memory_list,
        name="memory list",
        path="/v1/memory/list",
        writes=False,
        example="ctxmgr memory list --kind decision",
    ),
    Operation(
        run=memory_show,
        name="memory show",
        path="/v1/memory/show",
        writes=False,
        example="ctxmgr memory show 3f2a91c4",
    ),
    Operation(
        run=memory_history,
        name="memory history",
        path="/v1/memory/history",
        writes=False,
        example="ctxmgr memory history 3f2a91c4",
    ),
    Operation(
        run=memory_search,
        name="memory search",
        path="/v1/memory/search",
        writes=False,
        example='ctxmgr memory search "which test runner?"',
    ),
    Operation(
        run=memory_expand,
        name="memory expand",
        path="/v1/memory/expand",
        tool="expand",
        writes=True,
        example="ctxmgr memory expand 3f2a91c4",
    ),
    Operation(
        run=memory_remember,
        name="memory remember",
        path="/v1/memory/remember",
        tool="remember",
        writes=True,
        example='ctxmgr memory remember "test runner" pytest --session review',
    ),
    Operation(
        run=memory_feedback,
        name="memory feedback",
        path="/v1/memory/feedback",
        writes=True,
        example="ctxmgr memory feedback 3f2a91c4 cited",
    ),
    Operation(
        run=memory_edit,
        name="memory edit",
        path="/v1/memory/edit",
        writes=True,
        example="ctxmgr memory edit 3f2a91c4 unittest",
    ),
    Operation(
        run=memory_forget,
        name="memory forget",
        path="/v1/memory/forget",
        writes=True,
        example='ctxmgr memory forget 3f2a91c4 --because "we moved on"',
    ),
    Operation(
        run=memory_restore,
        name="memory restore",
        path="/v1/memory/restore",
        writes=True,
        example="ctxmgr memory restore 3f2a91c4",
    ),
    Operation(
        run=memory_contradictions,
        name="memory contradictions",
        path="/v1/memory/contradictions",
        writes=False,
        example="ctxmgr memory contradictions",
    ),
    Operation(
        run=memory_resolve,
        name="memory resolve",
        path="/contradictions/{id}/resolve",
        writes=True,
        example='ctxmgr memory resolve 9be1f0 b_wins --note "asked the team"',
    ),
    Operation(
        run=memory_assemble,
        name="memory assemble",
        path="/context/assemble",
        writes=False,
        example="ctxmgr memory assemble --current-file src/shop.py --budget 2000",
    ),
    Operation(
        run=memory_learn,
        name="memory learn",
        path="/v1/memory/learn",
        writes=True,
        example="ctxmgr memory learn review",
    ),
    Operation(
        run=memory_refused,
        name="memory refused",
        path="/v1/memory/refused",
        writes=False,
        example="ctxmgr memory refused --limit 20",
    ),
    Operation(
        run=memory_consolidate,
        name="memory consolidate",
        path="/consolidate",
        writes=True,
        example="ctxmgr memory consolidate --dry-run",
    ),
    Operation(
        run=memory_predict,
        name="memory predict",
        path="/context/predict",
        writes=False,
        example="ctxmgr memory predict src/shop.py",
    ),
    Operation(
        run=memory_why,
        name="memory why",
        path="/v1/memory/why",
        writes=False,
        example='ctxmgr memory why 3f2a91c4 --message "run the tests"',
    ),
    Operation(
        run=memory_share,
        name="memory share",
        path="/v1/memory/share",
        writes=True,
        example="ctxmgr memory share 3f2a91c4",
    ),
    Operation(
        run=memory_unshare,
        name="memory unshare",
        path="/v1/memory/unshare",
        writes=True,
        example="ctxmgr memory unshare 3f2a91c4",
    ),
    Operation(
        run=memory_export,
        name="memory export",
        writes=False,
        example="ctxmgr memory export shop.memory",
    ),
    Operation(
        run=memory_import,
        name="memory import",
        writes=True,
        example="ctxmgr memory import shop.memory --dry-run",
    ),
    Operation(
        run=memory_purge,
        name="memory purge",
        writes=True,
        example="ctxmgr memory purge 3f2a91c4 --dry-run",
    ),
)
