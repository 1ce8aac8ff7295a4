"""`ctxmgr bench economy`: recorded sessions under every policy."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from click.testing import Result as Outcome

from ctxmgr.bench.economy.figures import undominated
from ctxmgr.bench.economy.judge import PolicyResult, Score
from ctxmgr.bench.economy.policies import Ours, Policy, Simple, append_only, clear, clip, keep
from ctxmgr.bench.economy.replay import MarkedCache, Replay, Truth
from ctxmgr.bench.economy.sent_messages import SentMessages, of_payload
from ctxmgr.bench.economy.sessions import read_session
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.economy.policy import Economy, Prices
from ctxmgr.messages.openai import payload
from ctxmgr.surfaces.terminal.cli import COMMANDS
from tests.bench.economy.recordings import folder, session
from tests.components import SHARED, need

COUNT = TokenCounter().count
PRICES = Prices()
SCRIPT = SHARED / "bench" / "replay_bench.py"


@pytest.fixture(scope="module")
def replay() -> Replay:
    return Replay("made-up", [read_session(session(calls=36))], count=COUNT)


def ctxmgr(*arguments: str) -> Outcome:
    return CliRunner().invoke(COMMANDS, list(arguments), prog_name="ctxmgr")


def cost(replay: Replay, policy: Policy) -> float:
    full = replay.under(append_only()).total.cost(PRICES)
    return replay.under(policy).total.cost(PRICES) / full


def test_append_only_keeps_everything_and_never_breaks(replay: Replay) -> None:
    """It is the baseline for every other policy."""
    total = replay.under(append_only()).total

    assert (total.keep, total.line, total.all_line, total.breaks) == (1, 1, 1, 0)


def test_hiding_one_by_one_breaks_and_costs_more_than_in_steps(replay: Replay) -> None:
    """This is the reason for planning: fewer tokens may cost more."""
    assert cost(replay, keep(5)) > cost(replay, keep(5, every=10))
    assert replay.under(keep(5)).total.breaks > replay.under(keep(5, every=10)).total.breaks


def test_ours_is_cheaper_than_the_usual_ones_and_keeps_more(replay: Replay) -> None:
    """On a synthetic session; recorded ones show by how much."""
    ours = replay.under(Ours(Economy()))

    for simple in (keep(5, every=10), clip(250)):
        other = replay.under(simple).total
        assert ours.total.keep > other.keep
    assert cost(replay, Ours(Economy())) < 1


def test_clearing_waits_for_its_threshold_and_then_sweeps(replay: Replay) -> None:
    """Providers work this way."""
    high = replay.under(append_only()).total.peak_tokens // 2

    total = replay.under(clear(high, high // 2)).total

    assert 0 < total.breaks < 12
    assert total.peak_tokens <= high + 2000


async def test_a_client_sends_the_bytes_that_were_evaluated(replay: Replay) -> None:
    """Figures for anything but the output of ``render`` would be worthless."""
    assert await replay.check_through_client(Ours(Economy())) == 36


async def test_a_recorded_secret_does_not_change_what_is_compared() -> None:
    """The client would mask it, and every later call would differ from what was evaluated."""
    recorded = session(calls=9)
    recorded["messages"][3]["text"] += "\nexport GITHUB_TOKEN=ghp_" + "a1B2c3D4e5" * 4
    replay = Replay("secret", [read_session(recorded)], count=COUNT)

    assert await replay.check_through_client(Ours(Economy())) == 9


def test_in_every_prompt_references_resolve_and_what_was_read_is_whole(replay: Replay) -> None:
    """The benchmark reports both for every recording; here they must not occur."""
    again = read_session(session(calls=60))
    rereading = replace(again, turns=again.turns * 3)
    replays = (replay, Replay("read again", [rereading], count=COUNT))

    assert [each.truth(Ours(Economy())) for each in replays] == [Truth(0, 0)] * 2


def test_messages_built_turn_by_turn_equal_the_whole_request() -> None:
    """The fast evaluation must give the same result."""
    recorded = read_session(session())
    sent = SentMessages(count=COUNT)

    for context in Ours(Economy(fidelity=0)).contexts(recorded, count=COUNT):
        assert sent.of(context) == of_payload(payload(context), count=COUNT)


def test_a_cache_of_marked_prefixes_reads_only_what_was_marked() -> None:
    """Anthropic caches prefixes only up to marked blocks."""
    cache = MarkedCache(count=len)
    mark = {"cache_control": {"type": "ephemeral"}}

    def request(*texts: str, marked: str) -> dict[str, object]:
        blocks = [{"type": "text", "text": t} | (mark if t == marked else {}) for t in texts]
        return {"system": [], "messages": [{"role": "user", "content": blocks}]}

    assert cache.send(request("aaaa", "bb", "c", marked="bb")) == (0, 4 + 7)
    assert cache.send(request("aaaa", "bb", "c", marked="c")) == (4 + 6, 1)
    assert cache.send(request("aaaa", "XX", "c", marked="c")) == (0, 4 + 7)


def test_a_dominated_policy_is_left_out() -> None:
    """Ours is compared with reasonable alternatives."""

    def result(name: str, tokens: int, kept: int) -> PolicyResult:
        score = Score(input_tokens=tokens, needed=10, kept=kept)
        return PolicyResult(policy=name, total=score, sessions=())

    results = [result("cheap", 10, 5), result("worse", 20, 4), result("dear", 30, 9)]

    assert [result.policy for result in undominated(results, PRICES)] == ["cheap", "dear"]


def test_the_command_reports_figures_policies_and_sessions(tmp_path: Path) -> None:
    """The full command, from the folder to the plot."""
    folder(tmp_path, made=[session("one"), session("two")])
    picture = tmp_path / "picture.svg"
    options = ("--quick", "--json", "--report-only", "--picture", str(picture))

    outcome = ctxmgr("bench", "economy", str(tmp_path), *options)

    report = json.loads(outcome.stdout)
    assert outcome.exit_code == 0
    assert {row["policy"] for row in report["policies"]} >= {"append-only", "economy 0.5"}
    assert [row["session"] for row in report["sessions"]] == ["one", "two"]
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_only_this_benchmark_requires_a_folder() -> None:
    """An error says which benchmark takes a folder."""
    without = ctxmgr("bench", "economy")
    elsewhere = ctxmgr("bench", "stores", ".")

    assert without.exit_code == elsewhere.exit_code != 0
    assert "folder of recorded sessions; pass one" in without.stderr
    assert "takes no folder" in elsewhere.stderr


def test_costs_of_the_usual_policies_agree_with_the_reference_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two independent implementations of one cost model, on the same session."""
    need("shared-data")
    script = _script(monkeypatch)
    made = session(calls=36)
    rows = {row["strategy"]: row["costB"] for row in script.run([script.Traj(made)])}
    ours = Replay("made-up", [read_session(made)], count=COUNT)
    pairs: list[tuple[Simple, str]] = [
        (keep(5), "mask all but last 5 obs"),
        (keep(5, every=10), "mask all but last 5 obs, every 10"),
        (clip(500), "clip obs to 500 tok on arrival"),
        (clear(16_000, 8_000), "mask oldest obs at 16k down to 8k"),
    ]

    for policy, strategy in pairs:
        assert cost(ours, policy) == pytest.approx(rows[strategy], rel=0.02)


def _script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script with our tokenizer: its own may not be installed."""
    counting = ModuleType("rs_bpe.bpe")
    encoding = type("Encoding", (), {"count": staticmethod(COUNT)})
    counting.openai = type("openai", (), {"cl100k_base": staticmethod(encoding)})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rs_bpe", ModuleType("rs_bpe"))
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", counting)
    spec = importlib.util.spec_from_file_location("replay_bench", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
