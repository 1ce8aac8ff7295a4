"""Limits come from the contract; without one, the tribal minimums apply."""

from pathlib import Path

import pytest

from ctxmgr import Incorrect
from ctxmgr.experience.windows.lifecycle_contract import TRIBAL_MINIMUMS, LifecycleContract


def test_without_a_contract_the_minimums_apply() -> None:
    """000-R213, 000-R209, 000-A32."""
    memory = TRIBAL_MINIMUMS.resources.memory

    assert (memory.context_window_tokens, memory.warm_quota_tokens) == (8_192, 100_000)
    assert (memory.cold_storage_bytes, memory.audit_retention_days) == (100_000_000, 30)
    assert TRIBAL_MINIMUMS.resources.compute.tokens_per_tick == 1_024


def test_a_contract_sets_the_limits(tmp_path: Path) -> None:
    """000-R209, 000-R211, 000-R212: under the names of the rows; the rest of it is ignored."""
    path = tmp_path / "contract.json"
    path.write_text(
        '{"parties": ["be-7"], "resources": {"memory": {"warm_quota_tokens": 200000,'
        ' "cold_storage_bytes": 500000000, "context_window_tokens": 32768}}}'
    )

    memory = LifecycleContract.load(path).resources.memory

    assert (memory.warm_quota_tokens, memory.cold_storage_bytes) == (200_000, 500_000_000)
    assert memory.context_window_tokens == 32_768


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"resources": {"memory": {"warm_quota_tokens": 99999}}}', "warm_quota_tokens"),
        ('{"resources": {"memory": {"cold_storage_bytes": "many"}}}', "cold_storage_bytes"),
        ('{"resources": []}', "resources"),
        ("not json", "contract"),
    ],
)
def test_a_contract_below_the_minimum_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """X-C22: each limit that is wrong is named."""
    path = tmp_path / "contract.json"
    path.write_text(text)

    with pytest.raises(Incorrect, match=message):
        LifecycleContract.load(path)


def test_a_contract_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """The limits are never guessed."""
    with pytest.raises(Incorrect, match="no lifecycle contract"):
        LifecycleContract.load(tmp_path / "contract.json")
