"""Benchmarks of appending to the experience log, against raw engines. Writes files.

All store the same steps in batches of 8,192, each with a durable commit; ours folds, too. Rates are
compared, since the slowest engine stores fewer steps.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSizes:
    steps: int
    schema_steps: int
    """Steps for the table of the requirements, which is the slowest.

    With fewer than 65,536, DuckDB takes a quarter less space per step than it does later.
    """


FULL: Final = IngestSizes(steps=1_048_576, schema_steps=262_144)
QUICK: Final = IngestSizes(steps=139_264, schema_steps=65_536)


@dataclass(frozen=True, slots=True)
class _Ingested:
    rate: float
    bytes_per_step: float


def ingest_figures(sizes: IngestSizes, *, say: Say) -> list[Figure]:
    """Compare how fast steps are stored, and how much space they take."""
    say(f"experience: appending {sizes.steps:,} steps")
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root = Path(folder)
        ours = _ingest(OurLog(root / "ours"), sizes.steps)
        table = _ingest(DuckdbTable(root / "duckdb"), sizes.steps)
        rows = _ingest(SqliteRows(root / "sqlite"), sizes.steps)
        schema = _ingest(DuckdbRowsSchema(root / "schema"), sizes.schema_steps)
    return [
        at_least(
            f"append steps, {what}",
            ours.rate / other.rate,
            bound=bound,
            against=against,
            note=f"{ours.rate:,.0f} steps/s; baseline {other.rate:,.0f}",
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


def _ingest(store: BenchedStore, steps: int) -> _Ingested:
    seconds = 0.0
    for batch in batches(steps):
        prepared = store.prepare(batch)
        started = perf_counter()
        store.append(prepared)
        seconds += perf_counter() - started
    size = store.bytes()
    store.close()
    return _Ingested(steps / seconds, size / steps)


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
