"""``ctxmgr audit``: create, verify, sign, query and export the audit log. Through ``App`` only."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ctxmgr.errors import Denied
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxmgr.app import App


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOverview:
    """What the log is, without content."""

    folder: str
    log_id: str
    public_key: str
    """Keep it elsewhere: with it, a log that was signed anew by someone else is found."""
    records: int
    segments: int
    bytes: int
    checkpoints: int
    signed: int
    """Records up to this number are covered by a checkpoint."""
    last_checkpoint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """Something that is not as it was written."""

    place: str
    field: str
    reason: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCheck:
    """The result of a verification."""

    verified: bool
    records: int
    last: int
    signed: int
    checkpoints: int
    megabytes_per_second: float
    torn_bytes: int
    faults: tuple[AuditFinding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """A record, as a reviewer sees it."""

    number: int
    id: str
    time: str
    event_type: str
    raw_content: str
    lens_activations: dict[str, float]
    steering_applied: list[Any]
    session_id: str
    tick: int
    record_hash: str
    full_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditExport:
    folder: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCheckpoint:
    """The last checkpoint, and what retention removed."""

    checkpoint: int
    """0: the log is empty."""
    records: int
    hash: str
    removed_segments: int


async def audit_init(
    app: "App",
    *,
    key: Annotated[
        Path | None, Param("Where to put the signing key; default: in the log's folder.")
    ] = None,
) -> AuditOverview:
    """Create the audit log and the key that signs its checkpoints.

    The folder is that of the setting `audit`, or `audit` in ctxmgr's data folder. From then on
    `ctxmgr run` and `ctxmgr hook` record in it. Keep the public key that is printed elsewhere.
    Needs the extra ctxmgr-agent[audit].
    """
    return _overview(await app.create_audit_log(key_file=key))


async def audit_status(app: "App") -> AuditOverview:
    """Show how much the log holds and what is signed, without content."""
    async with await app.audit_log() as log:
        return _overview(await log.status())


async def audit_verify(
    app: "App",
    *,
    from_checkpoint: Annotated[
        int | None, Param("Begin at this checkpoint; default: at the beginning.", metavar="NUMBER")
    ] = None,
    every_hash: Annotated[
        bool, Param("Compute every record's hashes again, also where a checkpoint covers them.")
    ] = False,
    public_key: Annotated[
        str | None, Param("The public key that you kept; default: the log's own.", metavar="HEX")
    ] = None,
) -> AuditCheck:
    """Verify the log; name the first altered record and field.

    Exits with 1 if there is one. Bytes that a signed checkpoint covers are hashed and compared with
    it; both hashes of every later record are computed again. Shows no content and needs no
    credential.
    """
    async with await app.audit_log() as log:
        result = await log.verify(
            start=from_checkpoint,
            every_hash=every_hash,
            public_key=public_key,
            progress=_progress(app, "verifying"),
        )
    return AuditCheck(
        verified=not result.faults,
        records=result.records,
        last=result.last,
        signed=result.signed,
        checkpoints=result.checkpoints,
        megabytes_per_second=result.bytes / max(result.seconds, 1e-9) / 1e6,
        torn_bytes=result.torn_bytes,
        faults=tuple(
            AuditFinding(place=fault.place, field=fault.field, reason=fault.reason, file=fault.file)
            for fault in result.faults
        ),
    )


async def audit_query(
    app: "App",
    *,
    session: Annotated[str | None, Param("Only records of this session.")] = None,
    kind: Annotated[
        Literal["input", "output", "tool_call", "tool_response", "steering", "system"] | None,
        Param("Only records of this event type."),
    ] = None,
    text: Annotated[str | None, Param("Only records whose content contains this.")] = None,
    since: Annotated[int | None, Param("Not before this time.", instant=True)] = None,
    until: Annotated[int | None, Param("Not after this time.", instant=True)] = None,
    after: Annotated[int, Param("Only records after this number.", metavar="NUMBER")] = 0,
    limit: Annotated[int, Param("Records to show.")] = 100,
) -> tuple[AuditLine, ...]:
    """Show records to a reviewer. The query is recorded itself.

    Needs a reviewer's credential, which `ctxmgr token --reviewer NAME` creates: put it into
    CTXMGR_REVIEWER_TOKEN, or as reviewer_token into the settings file of your user.
    """
    from ctxmgr.surfaces.encoding import iso

    async with await app.audit_log(reviewers=_reviewer) as log:
        found = await log.query(
            _credential(app),
            session_id=session,
            event_types=() if kind is None else (kind,),
            text_search=text,
            time_range=(since or 0, 2**53 if until is None else until),
            after=after,
            limit=limit,
        )
    return tuple(
        AuditLine(
            number=record.number,
            id=record.id,
            time=iso(record.timestamp),
            event_type=record.event_type,
            raw_content=record.raw_content,
            lens_activations=dict(record.lens_activations),
            steering_applied=list(record.steering_applied),
            session_id=record.session_id,
            tick=record.tick,
            record_hash=record.record_hash,
            full_hash=record.full_hash,
        )
        for record in found
    )


async def audit_export(
    app: "App",
    folder: Annotated[Path, Param("The folder to create.", metavar="FOLDER")],
) -> AuditExport:
    """Export all records for a third party without ctxmgr.

    Needs a reviewer's credential, as `ctxmgr audit query` does, and is recorded. The program
    docs/verify_audit_export.py verifies the folder.
    """
    async with await app.audit_log(reviewers=_reviewer) as log:
        size = await log.export(
            _credential(app), folder.absolute(), progress=_progress(app, "exporting")
        )
    return AuditExport(folder=str(folder), bytes=size)


async def audit_checkpoint(
    app: "App",
    *,
    key: Annotated[
        Path | None, Param("The signing key; default: the one in the log's folder.")
    ] = None,
    keep_days: Annotated[
        int | None, Param("Then remove segments whose records are all older; at least 30.")
    ] = None,
) -> AuditCheckpoint:
    """Verify what was recorded since the last checkpoint, and sign it.

    Nothing is signed if a record was altered. Segments are only removed behind a checkpoint that
    says so. Keep what is printed elsewhere: it proves later that nothing was cut from the end.
    """
    async with await app.audit_log() as log:
        removed = 0
        if keep_days is not None:
            removed = await log.remove_old(keep_days=keep_days, key_file=key)
        signed = await log.checkpoint(key_file=key)
    return AuditCheckpoint(
        checkpoint=signed.number if signed else 0,
        records=signed.end.number if signed else 0,
        hash=signed.hash if signed else "",
        removed_segments=removed,
    )


def _reviewer(credential: str) -> str:
    from ctxmgr.settings import data_dir
    from ctxmgr.surfaces.access_tokens import reviewer_of

    return reviewer_of(data_dir(), credential, now=time.time())


def _credential(app: "App") -> str:
    if app.reviewer_credential is not None:
        return app.reviewer_credential
    app.loaded.require_trusted("reviewer_token")
    given = app.loaded.settings.reviewer_token
    if given is None:
        raise Denied(
            "a reviewer's credential is needed: create one with `ctxmgr token --reviewer NAME` and"
            " put it into CTXMGR_REVIEWER_TOKEN"
        )
    return given.get_secret_value()


def _overview(status: Any) -> AuditOverview:
    from ctxmgr.surfaces.encoding import iso

    return AuditOverview(
        folder=status.folder,
        log_id=status.log_id,
        public_key=status.public_key,
        records=status.records,
        segments=status.segments,
        bytes=status.bytes,
        checkpoints=status.checkpoints,
        signed=status.signed,
        last_checkpoint=None if status.last_checkpoint is None else iso(status.last_checkpoint),
    )


def _progress(app: "App", what: str) -> "Callable[[int, int], None]":
    """Report from the thread that works."""
    import asyncio

    loop = asyncio.get_running_loop()

    def report(done: int, total: int) -> None:
        share = 100 if done >= total else 100 * done // total
        loop.call_soon_threadsafe(app.say, f"{what}: {share} %")

    return report
