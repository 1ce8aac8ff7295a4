"""``ctxmgr experience windows`` and its neighbours: what is kept, and for how long."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.layers.experience import tick_range

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.experience.windows.evidence import EvidencePackage
    from ctxmgr.experience.windows.time_windows import TimeWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLine:
    """A window of a session."""

    id: str
    session_id: str
    start_tick: int
    end_tick: int
    fidelity: str
    level: str
    tokens: int
    pinned: bool
    reason: str | None
    submissions: tuple[str, ...]
    started: str
    ended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityLine:
    """What the windows of one fidelity cover."""

    fidelity: str
    windows: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLines:
    """Windows, by session and tick."""

    windows: tuple[WindowLine, ...]
    """The last ones, if there are more than were asked for."""
    fidelities: tuple[FidelityLine, ...]
    """Of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedWindows:
    """What was retained."""

    windows: tuple[WindowLine, ...]
    tokens: int
    """Tokens that count against the quota since."""
    gone: tuple[str, ...]
    """Ticks that were compressed before, as FIRST-LAST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedWindows:
    """What a submission keeps."""

    submission_id: str
    windows: tuple[str, ...]
    missing: tuple[str, ...]
    """Examples that were compressed before, as SESSION:FIRST-LAST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFiles:
    """A package of evidence."""

    folder: str
    submission_id: str
    be_id: str
    timesteps: int
    tags: int
    comments: int
    manifest_sha256: str
    """Stands for the whole package: send it by another way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLine:
    """What the compressed records of a level take."""

    level: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceStorage:
    """What recorded experience takes."""

    steps: int
    tail_steps: int
    """Of these, steps that are not in a segment yet."""
    segments: int
    segment_bytes: int
    levels: tuple[StorageLine, ...]
    """Logical bytes of compressed records, of which there may be none yet."""
    limit: int
    """Logical bytes that compressed records may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageReport:
    """What compressed records take, and what was done about it."""

    limit: int
    before: int
    after: int
    passes: int
    levels: tuple[StorageLine, ...]


WINDOWS_MAX: Final = 10_000
"""Windows of one answer."""

_FOLDER = Param("The folder with the experience; default: the setting.", metavar="DIR", local=True)
_TICKS = Param("A tick, or a range such as 10-20.", metavar="TICKS")


async def experience_windows(
    app: "App",
    session: Annotated[str | None, Param("Only windows of this session.")] = None,
    *,
    limit: Annotated[int, Param("Windows to show, the last ones.")] = 1_000,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> WindowLines:
    """List the windows of recorded experience, with their fidelity.

    Ticks without a window are hot: they are in the context.
    """
    if not 0 < limit <= WINDOWS_MAX:
        raise Incorrect(f"limit is 1 to {WINDOWS_MAX:,}, not {limit}")
    async with app.xdb(folder) as xdb:
        windows = await xdb.windows.windows(session)
    sums: dict[str, tuple[int, int]] = {}
    for window in windows:
        number, tokens = sums.get(window.fidelity.value, (0, 0))
        sums[window.fidelity.value] = (number + 1, tokens + window.token_count)
    return WindowLines(
        windows=tuple(map(_line, windows[-limit:])),
        fidelities=tuple(
            FidelityLine(fidelity=fidelity, windows=number, tokens=tokens)
            for fidelity, (number, tokens) in sorted(sums.items())
        ),
    )


async def experience_storage(
    app: "App",
    *,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> ExperienceStorage:
    """Show what recorded experience takes, by level of compression.

    Changes nothing; `ctxmgr experience compress` makes room.
    """
    async with app.xdb(folder) as xdb:
        status = await xdb.experience_log.status()
        storage = xdb.storage_manager()
        levels = await storage.usage_by_level()
    return ExperienceStorage(
        steps=status.steps,
        tail_steps=status.tail_steps,
        segments=status.segments,
        segment_bytes=status.segment_bytes,
        levels=tuple(StorageLine(level=level.name, bytes=size) for level, size in levels.items()),
        limit=storage.max_storage_bytes,
    )


async def experience_retain(
    app: "App",
    session: Annotated[str, Param("The session.")],
    ticks: Annotated[str, _TICKS],
    *,
    reason: Annotated[str | None, Param("Why, such as bud:kindness.")] = None,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> RetainedWindows:
    """Keep a range of ticks token by token, until it is released.

    Refused, with the shortfall, if that exceeds the quota.
    """
    from ctxmgr.experience.windows.time_windows import Ticks

    wanted = Ticks(*tick_range(ticks))
    async with app.xdb(folder) as xdb:
        done = await xdb.windows.retain(session, wanted, reason=reason)
    return RetainedWindows(
        windows=tuple(map(_line, done.windows)),
        tokens=done.tokens,
        gone=tuple(f"{part.start}-{part.end}" for part in done.gone),
    )


async def experience_release(
    app: "App",
    window: Annotated[str, Param("The id of a warm window.")],
    *,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> WindowLine:
    """Stop retaining a window; it is compressed when it next expires."""
    async with app.xdb(folder) as xdb:
        return _line(await xdb.windows.release(window))


async def experience_submit(
    app: "App",
    bud: Annotated[str, Param("The id or name of a bud.")],
    submission: Annotated[str, Param("The id of the submission.")],
    *,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> SubmittedWindows:
    """Keep the examples of a bud until a submission is resolved."""
    async with app.xdb(folder) as xdb:
        tag = await xdb.tag_index.resolve(bud)
        done = await xdb.windows.submit_graft(bud if tag is None else tag.id, submission)
    return SubmittedWindows(
        submission_id=done.submission_id, windows=done.window_ids, missing=done.missing
    )


async def experience_resolve(
    app: "App",
    submission: Annotated[str, Param("The id of the submission.")],
    *,
    accepted: Annotated[bool, Param("It was accepted: compress what nothing else needs.")] = False,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> tuple[WindowLine, ...]:
    """Release the windows of a submission.

    Shows them as they are then.
    """
    async with app.xdb(folder) as xdb:
        return tuple(
            map(_line, await xdb.windows.resolve_submission(submission, accepted=accepted))
        )


async def experience_package(
    app: "App",
    submission: Annotated[str, Param("The id of the submission.")],
    *,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> EvidenceFiles:
    """Write the evidence of a submission to a folder.

    The folder is exports/SUBMISSION in that of the experience.
    """
    async with app.xdb(folder) as xdb:
        return _files(await xdb.export_submission(submission))


async def experience_verify_package(
    app: "App",  # noqa: ARG001 — each operation gets it
    package: Annotated[Path, Param("The folder of the package.", metavar="DIR")],
    *,
    sha256: Annotated[
        str | None, Param("What the SHA-256 of its manifest has to be.", metavar="HASH")
    ] = None,
) -> EvidenceFiles:
    """Check a package of evidence, on any machine, without the log.

    Names the first file that was altered, is missing, or does not belong to it.
    """
    import asyncio

    from ctxmgr.experience.windows.evidence import verify_package

    return _files(await asyncio.to_thread(verify_package, package, manifest_sha256=sha256))


async def experience_compress(
    app: "App",
    *,
    limit: Annotated[
        int | None, Param("Logical bytes of compressed records; default: the contract's.")
    ] = None,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> StorageReport:
    """Compress cold records to their limit; show what they take.

    Hot, warm and submitted windows are never touched.
    """
    async with app.xdb(folder) as xdb:
        storage = xdb.storage_manager(max_storage_bytes=limit)
        done = await storage.check_and_compress(
            on_pass=lambda usage, target: app.say(f"{usage:,} bytes, target {target:,}")
        )
        levels = await storage.usage_by_level()
    return StorageReport(
        limit=storage.max_storage_bytes,
        before=done.before,
        after=done.after,
        passes=done.passes,
        levels=tuple(StorageLine(level=level.name, bytes=size) for level, size in levels.items()),
    )


def _line(window: "TimeWindow") -> WindowLine:
    from ctxmgr.surfaces.encoding import iso

    return WindowLine(
        id=window.id,
        session_id=window.session_id,
        start_tick=window.start_tick,
        end_tick=window.end_tick,
        fidelity=window.fidelity.value,
        level=window.compression_level.name,
        tokens=window.token_count,
        pinned=window.pinned,
        reason=window.pinned_reason,
        submissions=window.submission_ids,
        started=iso(window.start_time),
        ended=iso(window.end_time),
    )


def _files(package: "EvidencePackage") -> EvidenceFiles:
    return EvidenceFiles(
        folder=str(package.path),
        submission_id=package.submission_id,
        be_id=package.be_id,
        timesteps=package.records["timesteps.jsonl"],
        tags=package.records["tag_applications.jsonl"],
        comments=package.records["comments.jsonl"],
        manifest_sha256=package.manifest_sha256,
    )
