"""Timesteps for the benchmarks of the experience log, as columns.

Sessions of made-up tokens with ten activations each: 4,000 concepts of which a session prefers 40,
with frequencies as in natural data (Zipf), and scores rounded to four decimals.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ctxmgr.experience.log.batches import BATCH, rounded

CONCEPTS: Final = 4_000
PREFERRED: Final = 40
TOP_K: Final = 10
OWN_SHARE: Final = 0.35
BATCH_STEPS: Final = 8_192
SESSION_STEPS: Final = 32_768
START_MS: Final = 1_790_000_000_000


class StepBatch(NamedTuple):
    """Steps of one session."""

    session: str
    tick0: int
    columns: pa.RecordBatch
    """As the tail stores them."""


def concept_names() -> list[str]:
    return [f"org.example/pack-v1::Concept{number:04}" for number in range(CONCEPTS)]


def batches(steps: int, *, size: int = BATCH_STEPS, seed: int = 1) -> Iterator[StepBatch]:
    """Yield batches of so many steps in all."""
    chance = np.random.default_rng(seed)
    weights = 1 / np.arange(1, CONCEPTS - TOP_K + 1) ** 1.05
    weights /= weights.sum()
    words = np.array([f" word{number}" for number in range(5_000)], dtype=object)
    for start in range(0, steps, size):
        session_number, tick = divmod(start, SESSION_STEPS)
        n = min(size, steps - start)
        preferred = np.random.default_rng(session_number).choice(
            CONCEPTS - TOP_K, PREFERRED, replace=False
        )
        codes = chance.choice(CONCEPTS - TOP_K, (n, TOP_K), p=weights)
        own = chance.random((n, TOP_K)) < OWN_SHARE
        codes = np.where(own, chance.choice(preferred, (n, TOP_K)), codes)
        codes.sort(axis=1)
        codes = codes + np.arange(TOP_K)  # no concept twice in a step
        scores = chance.beta(2, 3, (n, TOP_K)).ravel()
        offsets = pa.array(np.arange(0, (n + 1) * TOP_K, TOP_K, dtype=np.int32))
        events = (tick + np.arange(n)) // 200
        columns: list[Any] = [
            pa.array(START_MS + (start + np.arange(n)) * 20),
            pa.array(np.ones(n, dtype=np.uint8)),
            pa.array(chance.choice(words, n), pa.string()),
            pa.array([f"answer-{number}" for number in events], pa.string()),
            pa.array(np.zeros(n, dtype=np.uint8)),
            pa.array(chance.integers(0, 50_000, n)),
            pa.array(np.ones(n, dtype=np.uint8)),
            pa.ListArray.from_arrays(offsets, pa.array(codes.ravel().astype(np.uint32) + 1)),
            pa.ListArray.from_arrays(offsets, rounded(scores)),
        ]
        yield StepBatch(
            f"session-{session_number:05}", tick + 1, pa.record_batch(columns, schema=BATCH)
        )
