"""Signals bring the memories that the work at hand needs, without a model."""

import pytest

from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.prediction.context_prediction import WorkSignals
from ctxmgr.memory.prediction.error_signature import error_signature
from ctxmgr.memory.records.bodies import Fact, Workflow
from ctxmgr.memory.records.memory import MemoryKind


async def _add(memory: LivingMemory, key: str, kind: MemoryKind, *tags: str) -> str:
    added = await memory.add(Fact(key=key, value="yes"), kind=kind, tags=tags)
    return added.memory.id


async def test_an_opened_file_brings_what_is_about_it(memory: LivingMemory) -> None:
    """001-R048, 001-R053, 001-R054, 001-R136: by file, module, imports and project."""
    own = await _add(memory, "amounts in cents", MemoryKind.DECISION, "src/pay/card.py")
    folder = await _add(memory, "card vault", MemoryKind.NOTE, "src/pay/vault.py")
    imported = await _add(memory, "clock is UTC", MemoryKind.NOTE, "src/base/clock.py")
    convention = await _add(memory, "double quotes", MemoryKind.CONVENTION)
    elsewhere = await _add(memory, "newsletter on Friday", MemoryKind.NOTE, "src/mail/news.py")

    found = await memory.prediction.on_file_open(
        "src/pay/card.py", text="from base.clock import x\n"
    )

    assert [each.memory.id for each in found.tier1] == [own]
    assert {each.memory.id for each in found.tier2} >= {folder, imported}
    assert [each.memory.id for each in found.tier3] == [convention]
    assert [each.memory.id for each in found.tier4] == [elsewhere]


async def test_an_error_brings_the_fix_of_the_same_error(memory: LivingMemory) -> None:
    """001-R050: numbers, values and folders may differ."""
    fix = await _add(memory, "TimeoutError: pool 'api' gave up after 30 s", MemoryKind.ERROR_FIX)
    await _add(memory, "KeyError: 'colour'", MemoryKind.ERROR_FIX)

    signals = WorkSignals(errors=("Traceback …\nTimeoutError: pool 'db' gave up after 5.0 s\n",))
    found = await memory.prediction.predict(signals)

    assert [(each.memory.id, each.why) for each in found.tier1] == [(fix, "fix of the same error")]


async def test_branch_hour_and_collaborator_are_signals(memory: LivingMemory) -> None:
    """001-R049, 001-R051, 001-R052, 001-R055."""
    decision = await _add(memory, "invoice numbers", MemoryKind.DECISION)
    taste = await _add(memory, "short functions", MemoryKind.PREFERENCE, "@grace")
    flow = Workflow(name="release", trigger="release", steps=("tag", "push"), hint="tag, push")
    workflow = (await memory.add(flow)).memory
    hour = workflow.created_at // 3_600_000 % 24

    branch = await memory.prediction.predict(WorkSignals(branch="feature/invoice-numbers"))
    now = await memory.prediction.predict(WorkSignals(hour=(hour + 1) % 24))
    later = await memory.prediction.predict(WorkSignals(hour=(hour + 6) % 24))
    joined = await memory.prediction.predict(WorkSignals(collaborator="grace"))

    assert [each.memory.id for each in branch.tier2] == [decision]
    assert workflow.id in [each.memory.id for each in now.tier3]
    assert workflow.id not in [each.memory.id for each in later.tier3]
    assert [each.memory.id for each in joined.tier2] == [taste]


async def test_confidence_follows_what_was_used(memory: LivingMemory) -> None:
    """001-A19: the share that is clearly relevant, corrected by later use."""
    own = await _add(memory, "amounts in cents", MemoryKind.DECISION, "src/pay/card.py")
    before = (await memory.prediction.on_file_open("src/pay/card.py")).confidence

    for _ in range(3):
        await memory.on_memory_ignored(own)
    after = (await memory.prediction.on_file_open("src/pay/card.py")).confidence

    assert (before, after) == (1.0, 0.25)
    assert (await memory.prediction.on_file_open("unknown.py")).confidence == 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: bad id 17", "ValueError: bad id 99"),
        ("File \"/a/b.py\", line 3\nKeyError: 'x'", "KeyError: 'y'"),
        ("OSError: cannot open /tmp/a1/x.txt", "OSError: cannot open /home/ada/x.txt"),
    ],
)
def test_the_same_error_has_one_signature(one: str, other: str) -> None:
    """001-R050: similar errors are found by what does not change between runs."""
    assert error_signature(one) == error_signature(other) != ""
    assert error_signature(one) != error_signature("TypeError: bad operand")
