"""Benchmarks of appending to the experience log, against raw engines. Writes files.

All store the same steps in batches of 8,192, each with a durable commit; ours folds, too. They take
turns, batch by batch, so that other work on the machine delays all of them alike.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

from ctxmgr.bench.experience.raw import (
    BenchedStore,
    DuckdbRowsSchema,
    DuckdbTable,
    LogParts,
    OurLog,
    SqliteBlobs,
    SqliteRows,
    body_of,
)
from ctxmgr.bench.experience.steps import batches
from ctxmgr.bench.report import Figure, Say, at_least, at_most

DUCKDB_SPEED_MIN: Final = 2.5
SQLITE_SPEED_MIN: Final = 0.6
SCHEMA_SPEED_MIN: Final = 4.0
DUCKDB_BYTES_MAX: Final = 1.5
SCHEMA_BYTES_MAX: Final = 0.3
ACK_MAX: Final = 3.0
ACK_BATCHES: Final = (1, 64, 1_024)
ACK_SAMPLES: Final = 40


FULL_STEPS: Final = 1_048_576
QUICK_STEPS: Final = 139_264
"""With fewer than 65,536, DuckDB takes a quarter less space per step than it does later."""


@dataclass(frozen=True, slots=True)
class _Ingested:
    rate: float
    """Steps a second."""
    processor_rate: float
    """Steps in a second of processor time."""
    bytes_per_step: float


def ingest_figures(steps: int, *, say: Say) -> list[Figure]:
    """Compare how fast steps are stored, and how much space they take."""
    say(f"experience: appending {steps:,} steps")
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root = Path(folder)
        stores: list[BenchedStore] = [
            *(OurLog(root / "ours"), DuckdbTable(root / "duckdb")),
            *(SqliteRows(root / "sqlite"), DuckdbRowsSchema(root / "schema")),
        ]
        ours, table, rows, schema = _ingest(stores, steps)
    return [
        at_least(
            f"append steps, {what}",
            ours.rate / other.rate,
            bound=bound,
            against=against,
            note=f"{ours.rate:,.0f} steps/s; baseline {other.rate:,.0f};"
            f" by processor time {ours.processor_rate / other.processor_rate:.1f}×",
        )
        for what, other, bound, against in (
            ("folding included", table, DUCKDB_SPEED_MIN, "raw DuckDB, a commit per batch"),
            ("folding included", rows, SQLITE_SPEED_MIN, "SQLite, a row per step"),
            ("folding included", schema, SCHEMA_SPEED_MIN, "DuckDB, the schema of the rows"),
        )
    ] + [
        at_most(
            "bytes per step, all activations indexed",
            ours.bytes_per_step / other.bytes_per_step,
            bound=bound,
            against=against,
            note=f"{ours.bytes_per_step:.0f} bytes; baseline {other.bytes_per_step:.0f}",
        )
        for other, bound, against in (
            (table, DUCKDB_BYTES_MAX, "raw DuckDB without an index"),
            (schema, SCHEMA_BYTES_MAX, "DuckDB, the schema of the rows"),
        )
    ]


def _ingest(stores: list[BenchedStore], steps: int) -> list[_Ingested]:
    seconds, processor = [0.0] * len(stores), [0.0] * len(stores)
    for batch in batches(steps):
        for number, store in enumerate(stores):
            prepared = store.prepare(batch)
            started, spent = perf_counter(), process_time()
            store.append(prepared)
            seconds[number] += perf_counter() - started
            processor[number] += process_time() - spent
    ingested = []
    for store, wall, cpu in zip(stores, seconds, processor, strict=True):
        ingested.append(_Ingested(steps / wall, steps / cpu, store.bytes() / steps))
        store.close()
    return ingested


def acknowledgement_figures(*, say: Say) -> list[Figure]:
    """Compare how long a durable append takes, for several sizes of batches."""
    figures = []
    for size in ACK_BATCHES:
        say(f"experience: acknowledging {size} steps")
        with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
            parts, raw = LogParts.open(Path(folder) / "ours"), SqliteBlobs(Path(folder) / "raw")
            ours, baseline = list[float](), list[float]()
            for number, batch in enumerate(batches(size * ACK_SAMPLES, size=size)):
                body = body_of(batch)
                started = perf_counter()
                parts.tail.append_batches(f"{batch.session}-{number}", [batch.columns])
                between = perf_counter()
                raw.append(body)
                ours.append(between - started)
                baseline.append(perf_counter() - between)
            raw.close()
        figures.append(
            at_most(
                f"durable acknowledgement of {size} steps, p50",
                median(ours) / median(baseline),
                bound=ACK_MAX,
                against="SQLite, the same bytes in one commit, synchronous=FULL",
                note=f"{1e3 * median(ours):.2f} ms; baseline {1e3 * median(baseline):.2f} ms",
            )
        )
    return figures
