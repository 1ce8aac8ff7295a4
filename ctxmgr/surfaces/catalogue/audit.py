"""The operations of the audit log."""

from typing import Final

from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.operations.layers.audit import (
    audit_checkpoint,
    audit_export,
    audit_init,
    audit_query,
    audit_status,
    audit_verify,
)

AUDIT_OPERATIONS: Final = (
    Operation(
        run=audit_init,
        name="audit init",
        writes=True,
        example="ctxmgr audit init",
        uses_store=False,
    ),
    Operation(
        run=audit_status,
        name="audit status",
        path="/v1/audit/status",
        writes=False,
        example="ctxmgr audit status",
        uses_store=False,
    ),
    Operation(
        run=audit_verify,
        name="audit verify",
        path="/v1/audit/verify",
        writes=False,
        example="ctxmgr audit verify --from-checkpoint 3",
        uses_store=False,
        succeeded=lambda result: result.verified,
    ),
    Operation(
        run=audit_query,
        name="audit query",
        path="/v1/audit/query",
        writes=True,
        example="ctxmgr audit query --session s1 --kind steering",
        uses_store=False,
    ),
    Operation(
        run=audit_export,
        name="audit export",
        writes=True,
        example="ctxmgr audit export audit-2026-11",
        uses_store=False,
    ),
    Operation(
        run=audit_checkpoint,
        name="audit checkpoint",
        writes=True,
        example="ctxmgr audit checkpoint --keep-days 365",
        uses_store=False,
    ),
)
