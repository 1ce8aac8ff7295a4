"""What imports add to captured turns."""

from ctxmgr import Put, open_store
from ctxmgr.core.history.recorded_usage import completed, recorded_usage
from ctxmgr.core.objects.chat import Turn


async def test_what_no_import_writes_is_left_out() -> None:
    """The document may come from a bundle, and views would fail on it."""
    good = {"usage": {"output_tokens": 1}, "model": "m", "answers": 1}
    bad = {"1": 5, "2": {"usage": "many"}, "3": {"model": ["m"]}}
    document = {"xt/id": "recorded:s", "type": "recorded", "session": "s"}
    async with await open_store("sqlite://:memory:") as store:
        await store.commit([Put({**document, "captured": {**bad, "4": good}})])
        captured = await recorded_usage(store, "s")

    assert captured == {"4": good}
    turns = completed([Turn(user="", assistant=())] * 4, captured)
    assert [turn.assistant_meta.model for turn in turns] == [None, None, None, "m"]
