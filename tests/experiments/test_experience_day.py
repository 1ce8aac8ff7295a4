"""The experiment on a day of experience, with a small day."""

import pytest

from experiments.experience_day import run


async def test_each_level_says_less_and_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """000-R205, 000-R074, 000-R203: tokens answer everything, a reply what it was about."""
    monkeypatch.setattr(run, "SESSION_TOKENS", 1_000)

    rows, cost = await run.measure(3_000)

    assert cost > 0
    assert list(rows) == [
        *("token", "reply", "session", "day", "week", "month", "quarter", "year"),
    ]
    token, reply, session, *_ = rows.values()
    assert (token["said"], token["about"], token["tagged"]) == (1, 1, 1)
    assert (reply["records"], reply["about"], reply["tagged"]) == (30, 1, 1)
    assert (session["records"], session["tagged"]) == (3, 1)
    sizes = [row["bytes_per_token"] for row in rows.values()][1:]
    assert sizes == sorted(sizes, reverse=True)
