"""Timesteps as columns: the batches of the tail. Needs the extra ``experience``; touches no file.

    NewTimestep ─► record batch (BATCH) ─► body: the batch without its schema, compressed

A batch holds steps of one session with contiguous ticks, which are not columns: the tail stores the
first one. Concepts are numbers (``ConceptCodes``). Scores are rounded here and nowhere else, so
that a step is found by the same thresholds before and after it is folded.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import accumulate, chain
from typing import Final, NamedTuple

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Corrupt, Incorrect, requires_extra
from ctxmgr.experience.records.timestep import ROLES, NewTimestep, Role, TimestepRecord

with requires_extra("experience", "numpy", "pyarrow"):
    import numpy as np
    import pyarrow as pa

FORMAT: Final = 1
"""Of a body. A change of ``BATCH`` or of the codes below is another format."""

BATCH: Final = pa.schema(
    [
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("event_type", pa.uint8(), nullable=False),
        pa.field("content", pa.string(), nullable=False),
        pa.field("event_id", pa.string()),
        pa.field("flags", pa.uint8(), nullable=False),
        pa.field("token_id", pa.int64()),
        pa.field("role", pa.uint8()),
        pa.field("codes", pa.list_(pa.uint32()), nullable=False),
        pa.field("scores", pa.list_(pa.float32()), nullable=False),
    ]
)

EVENT_TYPES: Final = (
    *(EventType.INPUT, EventType.OUTPUT, EventType.TOOL_CALL, EventType.TOOL_RESPONSE),
    *(EventType.STEERING, EventType.SYSTEM),
)
"""Their numbers in a batch are their positions here; add new ones at the end."""

START, END = 1, 2
"""The bits of ``flags``."""

TOP_K: Final = 10
"""Activations of a step that are stored, unless the log is opened with another number."""

BATCH_STEPS_MAX: Final = 16_384
"""Steps in one row of the tail; a longer append has several."""

STEP_BYTES: Final = 64
"""Bytes of a step in a body besides its texts and activations, at most."""

SCORE_DECIMALS: Final = 4

CONTENT_CHARS_MAX: Final = 10_000_000
"""Characters of one step's content, far more than a model reads at once."""

CONCEPT_CHARS_MAX: Final = 512
"""Characters of a concept's id, as many as a concept pack may have."""

BODY_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes of a decompressed body: a damaged row must not take all memory. None larger is written."""

_CODEC: Final = pa.Codec("zstd", compression_level=-1)
"""A batch stays in the tail for a short time: fast rather than small. Any level can be read."""
_EVENT_CODES: Final = {kind: code for code, kind in enumerate(EVENT_TYPES)}
_ROLE_CODES: Final[dict[str | None, int | None]] = {
    None: None,
    **{role: code for code, role in enumerate(ROLES)},
}


class Body(NamedTuple):
    """A batch as the tail stores it."""

    raw_bytes: int
    data: bytes


def highest(activations: Mapping[str, float], *, top_k: int) -> Mapping[str, float]:
    """Return the highest activations; of equal ones, the first by name."""
    if len(activations) <= top_k:
        return activations
    return dict(nsmallest(top_k, activations.items(), key=lambda item: (-item[1], item[0])))


def check_steps(steps: Sequence[NewTimestep]) -> None:
    """Raise ``Incorrect`` if one of the steps cannot be stored."""
    for step in steps:
        if len(step.content) > CONTENT_CHARS_MAX:
            raise Incorrect(
                f"a content of {len(step.content):,} characters is too long: a timestep has at"
                f" most {CONTENT_CHARS_MAX:,}"
            )
        if step.role not in _ROLE_CODES:
            raise Incorrect(f"{step.role!r:.80} is not a role: use {', '.join(ROLES)}")
        for concept_id in step.concept_activations:
            if not 0 < len(concept_id) <= CONCEPT_CHARS_MAX:
                raise Incorrect(
                    f"{concept_id!r:.80} is not a concept id: it has 1 to {CONCEPT_CHARS_MAX}"
                    " characters"
                )


def check_storable(step: NewTimestep) -> None:
    """Raise ``Incorrect`` if a step cannot be stored, whatever its concepts are numbered."""
    check_steps([step])
    scores = step.concept_activations
    to_batch([step], codes=dict.fromkeys(scores, 0), activations=[scores])


def batch_parts(
    steps: Sequence[NewTimestep], activations: Sequence[Mapping[str, float]]
) -> Iterator[slice]:
    """Yield the parts of an append that are one batch each: few steps, and not too many bytes."""
    start = total = 0
    for number, (step, scores) in enumerate(zip(steps, activations, strict=True)):
        size = STEP_BYTES + 4 * (len(step.content) + len(step.event_id or "")) + 8 * len(scores)
        is_full = number - start == BATCH_STEPS_MAX or total + size > BODY_BYTES_MAX // 2
        if is_full and number > start:
            yield slice(start, number)
            start, total = number, 0
        total += size
    if steps:
        yield slice(start, len(steps))


def to_batch(
    steps: Sequence[NewTimestep],
    *,
    codes: Mapping[str, int],
    activations: Sequence[Mapping[str, float]],
) -> pa.RecordBatch:
    """Return steps, and the activations to store of each, as columns.

    ``Incorrect`` if a value cannot be stored.
    """
    offsets = pa.array([0, *accumulate(map(len, activations))], pa.int32())
    numbers = [codes[concept] for scores in activations for concept in scores]
    try:
        values = chain.from_iterable(scores.values() for scores in activations)
        scores = np.fromiter(values, dtype=np.float64)
        columns = [
            pa.array([step.timestamp for step in steps], pa.int64()),
            pa.array([_EVENT_CODES[EventType(step.event_type)] for step in steps], pa.uint8()),
            pa.array([step.content for step in steps], pa.string()),
            pa.array([step.event_id for step in steps], pa.string()),
            pa.array([_flags(step) for step in steps], pa.uint8()),
            pa.array([step.token_id for step in steps], pa.int64()),
            pa.array([_ROLE_CODES[step.role] for step in steps], pa.uint8()),
            pa.ListArray.from_arrays(offsets, pa.array(numbers, pa.uint32())),
            pa.ListArray.from_arrays(offsets, rounded(scores)),
        ]
    except UnicodeEncodeError as error:
        raise Incorrect(
            f"{error.object[error.start : error.end]!r} is half of a character and cannot be stored"
        ) from error
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise Incorrect(f"a timestep cannot be stored: {error}") from error
    return pa.record_batch(columns, schema=BATCH)


def rounded(scores: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> pa.Array:
    """Return scores as they are stored; ``Incorrect`` if one is not a number."""
    if not np.isfinite(scores).all():
        raise Incorrect("an activation is not a number")
    return pa.array(np.round(scores, SCORE_DECIMALS).astype(np.float32), pa.float32())


def encode(batch: pa.RecordBatch) -> Body:
    """Return a batch as the tail stores it; ``Incorrect`` if it is too large to be read again."""
    buffer = batch.serialize()
    if buffer.size > BODY_BYTES_MAX:
        raise Incorrect(
            f"{batch.num_rows:,} timesteps of {buffer.size:,} bytes are too large to be stored"
            f" together: a batch has at most {BODY_BYTES_MAX:,}"
        )
    return Body(buffer.size, _CODEC.compress(buffer, asbytes=True))


def decode(body: bytes, *, raw_bytes: int, file_format: int, where: str) -> pa.RecordBatch:
    """Return the batch of a body; ``Corrupt`` if it cannot be read."""
    if file_format != FORMAT or not 0 < raw_bytes <= BODY_BYTES_MAX:
        raise Corrupt(f"{where}: a batch of format {file_format} with {raw_bytes} bytes")
    try:
        buffer = _CODEC.decompress(body, decompressed_size=raw_bytes)
        batch = pa.ipc.read_record_batch(buffer, BATCH)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"{where}: a batch cannot be read ({error})") from error
    return batch


def records_of(
    batch: pa.RecordBatch, *, session_id: str, tick0: int, name_of: Callable[[int], str]
) -> Iterator[TimestepRecord]:
    """Yield the steps of a batch, or of a slice of one."""
    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    for tick, row in enumerate(rows, tick0):
        ts, event_type, content, event_id, flags, token_id, role, codes, scores = row
        yield TimestepRecord(
            session_id=session_id,
            tick=tick,
            timestamp=ts,
            event_type=EVENT_TYPES[event_type],
            content=content,
            concept_activations={
                name_of(code): shown_score(score) for code, score in zip(codes, scores, strict=True)
            },
            event_id=event_id,
            event_start=bool(flags & START),
            event_end=bool(flags & END),
            token_id=token_id,
            role=None if role is None else _role(role),
        )


def shown_score(score: float) -> float:
    """Return a stored score, which has 32 bits, as the decimal that it stands for."""
    return round(score, SCORE_DECIMALS)


def _flags(step: NewTimestep) -> int:
    return (START if step.event_start else 0) | (END if step.event_end else 0)


def _role(code: int) -> Role:
    return ROLES[code]
