"""The labelled messages of the watchers' benchmark."""

from collections import Counter
from dataclasses import replace

from ctxmgr.bench.knowledge.watchers import (
    ALGORITHM_MS,
    PARTS,
    algorithm_costs,
    evaluate,
    filter_shares,
    ordinary_figures,
    read_watched,
    with_clones,
)
from ctxmgr.knowledge.topics.switches import ALL_ON
from ctxmgr.knowledge.topics.topic import Direction


def test_the_messages_are_many_and_half_of_them_are_kept_apart() -> None:
    """Rows: 002-A33, PG-31."""
    topics, messages = read_watched()
    halves = Counter(message.half for message in messages)
    names = {topic.name for topic in topics}

    assert len(topics) >= 30
    assert len(messages) >= 200
    assert min(halves.values()) >= 100
    assert len({message.text for message in messages}) == len(messages)
    assert all(message.topics <= names for message in messages)
    assert sum(not message.topics for message in messages) >= 80
    assert {message.direction for message in messages} == set(Direction)


async def test_the_watchers_activate_mostly_what_they_should() -> None:
    """Rows: 002-R086, 002-R087, 002-A33."""
    topics, messages = read_watched()
    test = [message for message in messages if message.half == "test"]

    found = await evaluate(topics, test, ALL_ON)
    without_tier1 = await evaluate(topics, test, replace(ALL_ON, tier1=False))

    assert found.precision > 0.85
    assert found.recall > 0.45
    assert without_tier1.wrong > 10 * found.wrong


def test_every_part_of_the_ablation_is_a_switch() -> None:
    """Rows: PG-31."""
    assert all(hasattr(ALL_ON, part) for part in PARTS)


def test_clones_have_names_of_their_own() -> None:
    """Rows: 002-R088, 002-R089."""
    topics, _ = read_watched()

    assert len({topic.name for topic in with_clones(topics)}) == 200


async def test_each_tier_passes_on_little() -> None:
    """Rows: 002-R088, 002-R089, 002-R090. Tier 1 leaves few pairs, and the gate fewer questions."""
    topics, messages = read_watched()
    test = [message for message in messages if message.half == "test"]

    shares = await filter_shares(topics, test)

    assert shares.tier1 > 0.9
    assert 0.1 < shares.silent_messages < 1
    assert 0.2 < shares.tier2 < 1
    assert shares.asked <= shares.after_tier2 < shares.after_tier1 < shares.pairs
    assert shares.asked < len(test) / 2


def test_every_algorithm_of_tier_2_is_measured_alone() -> None:
    """Rows: 002-R105."""
    topics, messages = read_watched()

    figures = algorithm_costs(topics, messages[:3], rounds=1)

    assert [figure.what.split()[2] for figure in figures] == list(ALGORITHM_MS)
    assert all(figure.value > 0 for figure in figures)


async def test_ordinary_messages_are_filtered_before_anything_is_scored() -> None:
    """Rows: 002-R088, 002-R089. Chatter reaches no tier; a message about a topic reaches all."""
    chatter = [
        f"What shall I cook on day {number}, and is it going to rain?" for number in range(9)
    ]
    said: list[str] = []

    quiet = await ordinary_figures(chatter, say=said.append)
    busy = await ordinary_figures(
        ["Deploy the service to staging, then roll back the release in production."],
        say=said.append,
    )

    assert [figure.meets for figure in quiet] == [True, True]
    assert (busy[0].value, busy[0].meets) == (0, False)
    assert said
