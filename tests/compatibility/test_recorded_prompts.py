"""Prompts that were recorded under a renderer are proven as long as its number is known."""

from pathlib import Path

import pytest

import ctxmgr

PROMPTS = Path(__file__).parent / "fixtures" / "prompts"
BUNDLES = sorted(PROMPTS.glob("*.bundle"))


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.stem)
async def test_recorded_prompts_are_proven(bundle: Path) -> None:
    """003-R119: a change of what is rendered needs a new number; see ``make_prompts``."""
    renderer = bundle.stem.replace("-", "/", 1)
    async with ctxmgr.connect("sqlite://:memory:", tracking=False) as client:
        session_id = await client.import_session(bundle)
        renderers = set[str]()
        turn = 1
        while (record := await client.store.get(f"turn:{session_id}:{turn}")) is not None:
            renderers.add(record.document["renderer"])
            assert (await client.prompt_as_of(session_id, turn=turn)).text()
            turn += 1

    assert renderer in renderers


def test_every_renderer_has_recorded_prompts() -> None:
    """Version 0.1.0 wrote economy/1; prompts of compact/1 were never released."""
    assert {bundle.stem for bundle in BUNDLES} == {
        "compact-2",
        "compact-3",
        "economy-2",
        "economy-2+compaction",
    }
