"""What will be needed is in the prompt before it is asked for."""

import subprocess
from pathlib import Path

import pytest

from ctxmgr import KINDS, Store, connect, open_store
from ctxmgr.client_layers import principal_in, take_history
from ctxmgr.core.store.contract import Put
from ctxmgr.knowledge.repository.commit_files import commit_files
from ctxmgr.memory.learning.foresight import FileForesight
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.prediction.file_predictor import FilePredictor
from ctxmgr.memory.prediction.related_files import RelatedFiles
from ctxmgr.memory.project import feature_branch
from ctxmgr.memory.records.bodies import Episode, Fact
from ctxmgr.memory.records.link import LinkKind, link_between, stored_link
from ctxmgr.memory.records.memory import MemoryKind
from ctxmgr.memory.repository import MEMORY_KINDS
from ctxmgr.memory.tiers.assembly import Signals
from tests.memory.conftest import START
from tests.memory.learning.test_learning import ADA, call, client_of, exchange
from tests.memory.learning.test_learning import patient as patient  # noqa: PLC0414 (a fixture)
from tests.memory.learning.test_learning import store as store  # noqa: PLC0414 (a fixture)


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        check=True,
        capture_output=True,
    )


def commit(folder: Path, text: str, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository in which two files change together."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number in range(3):
        commit(folder, f"change {number}", "src/price.py", "tests/test_price.py")
    commit(folder, "alone", "docs/guide.md")
    return folder


async def test_a_prompt_has_what_belongs_to_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """001-R047, 001-R002, 001-R015, 001-R048, 001-R081: no word of the message is in the memory."""
    monkeypatch.setattr("ctxmgr.client_layers.HISTORY_SECONDS", 60.0)
    url = project.parent / "agent.db"
    kinds = {**KINDS, **MEMORY_KINDS}
    async with await open_store(f"sqlite:///{url}", kinds=kinds) as store:
        living = LivingMemory(store, principal_in(project))
        await living.add(Fact(key="rounding", value="half even"), tags=["tests/test_price.py"])
        await living.add(Fact(key="screenshots", value="600 px wide"), tags=["docs/guide.md"])
    async with connect(url, memory=project, tracking=False) as client:
        session = await client.start("one", system_prompt="You help.")
        prompt = await exchange(session, "change src/price.py please")
        past = await client.prompt_as_of("one", turn=1)

    relevant = prompt.partition("## Relevant now")[2].partition("## ")[0]
    assert "rounding: half even" in relevant
    assert "screenshots" not in relevant
    assert "rounding: half even" in past.contributions[0].text


async def test_what_was_predicted_in_vain_is_not_shown_for_ever(store: Store) -> None:
    """001-R001: a prediction that never helps stops to cost tokens."""
    living = LivingMemory(store, ADA)
    living.related.take_commits([("app/main.py", "docs/guide.md")] * 3)
    added = await living.add(Fact(key="rounding", value="half even"), tags=["docs/guide.md"])
    memory, signals = added.memory, Signals(current_file="app/main.py")

    async def tier() -> int:
        assembled = await living.assemble_context(signals=signals)
        return next(item.tier for item in assembled.shown if item.id == memory.id)

    before = await tier()
    for _ in range(2):
        await living.on_memory_ignored(memory.id)
    after = await tier()
    await living.on_memory_cited(memory.id)

    assert (before, after, await tier()) == (2, 4, 2)


async def test_a_link_brings_the_fix_after_the_matches(store: Store) -> None:
    """PG-25: what is only linked never outranks what matches, and weak links lead nowhere."""
    living = LivingMemory(store, ADA)
    story = Episode(title="Checkout timed out", full_narrative="The checkout gateway timed out.")
    problem = (await living.add(story)).memory
    fix = (await living.add(Fact(key="pool size", value="20"))).memory
    weak = (await living.add(Fact(key="lunch", value="noon"))).memory
    for other, kind, strength in (
        (fix, LinkKind.SOLVED_BY, 0.8),
        (weak, LinkKind.RELATED_TO, 0.31),
    ):
        link = link_between(
            problem.id, other.id, kind, strength=strength, reason="r", detected_at=START
        )
        await store.commit([Put(stored_link(link))])

    assembled = await living.assemble_context(signals=Signals(message="the checkout timed out"))

    tiers = {item.id: item.tier for item in assembled.shown}
    assert [item.id for item in assembled.shown if item.tier == 2] == [problem.id, fix.id]
    assert tiers[weak.id] == 4


async def test_the_branch_brings_its_decisions(project: Path, store: Store) -> None:
    """001-R049: also of a worktree; the main branch says nothing."""
    assert feature_branch(project) is None
    git(project, "checkout", "--quiet", "-b", "feature/invoice-numbers")
    git(project, "worktree", "add", "--quiet", "-b", "fix/mail", str(project.parent / "other"))
    living = LivingMemory(store, ADA)
    decision = await living.add(
        Fact(key="invoice numbers", value="without gaps"), kind=MemoryKind.DECISION
    )
    await living.add(Fact(key="newsletter", value="on Friday"), kind=MemoryKind.DECISION)

    signals = Signals(message="go on", branch=feature_branch(project))
    shown = (await living.assemble_context(signals=signals)).shown

    assert feature_branch(project.parent / "other") == "fix/mail"
    assert [item.id for item in shown if item.tier == 2] == [decision.memory.id]


async def test_a_session_is_told_which_files_come_next(store: Store) -> None:
    """001-R002: earlier sessions changed them together; the line has the reason."""
    predictor = FilePredictor()
    foresight = FileForesight(store, predictor, root=None)
    for _ in range(30):
        session = predictor.begin_session()
        for path in ("src/cart.py", "tests/test_cart.py"):
            session.predict(3)
            session.touch([path])
        session.end()
    turn = {"user": "", "assistant": [{"type": "toolcall", "args": {"path": "src/cart.py"}}]}

    await foresight.note_turn("one", turn)
    files = foresight.next_files("one")
    context = (
        await LivingMemory(store, ADA).assemble_context(signals=Signals(next_files=files))
    ).context

    ((path, why),) = files
    assert path == "tests/test_cart.py"
    assert why in ("touched together before", "touched often before")
    assert f"Probably needed next: tests/test_cart.py ({why})" in context
    foresight.end("one")
    assert foresight.next_files("one") == ()


async def test_only_names_of_files_below_the_project_are_taken_in(store: Store) -> None:
    """Agents name files by their whole path, list folders, and may put any text in a path."""
    predictor = FilePredictor()
    foresight = FileForesight(store, predictor, root="/home/ada/shop")
    args: list[dict[str, str]] = [
        {"file_path": "/home/ada/shop/src/cart.py"},
        {"command": "cat /home/ada/shop/src/price.py"},
        *({"path": path} for path in (".", "/home/ada/shop", "", "a\nDo this now", "x" * 5_000)),
    ]
    parts = [{"type": "toolcall", "args": each} for each in args]

    await foresight.note_turn("one", {"user": "", "assistant": parts})
    foresight.end("one")

    assert predictor.before.keys() == {"src/cart.py", "src/price.py"}


async def test_earlier_episodes_say_which_files_go_together(store: Store) -> None:
    """001-R133: a new process knows from the store what earlier sessions changed."""
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        for number, path in enumerate(("src/cart.py", "tests/test_cart.py")):
            args = {"path": path, "content": "x"}
            said = "make the cart work again please" if not number else ""
            await call(session, f"c{number}", args, "ok", tool="write", user=said)
        await exchange(session, "", answer="The cart counts missing prices as zero now.")
    predictor = FilePredictor()

    FileForesight(store, predictor, root=None).recall(await LivingMemory(store, ADA).memories())

    assert predictor.together["src/cart.py"]["tests/test_cart.py"] == 1


async def test_the_files_of_commits_are_read_within_bounds(project: Path) -> None:
    """Merges and what is not a repository say nothing; a folder in the repository is enough."""
    assert await commit_files(project / "src") == [
        ("docs/guide.md",),
        *[("src/price.py", "tests/test_price.py")] * 3,
    ]
    assert await commit_files(project.parent) == []
    empty = project.parent / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    assert await commit_files(empty) == []


async def test_a_repository_runs_nothing_when_its_history_is_read(
    project: Path, store: Store
) -> None:
    """Whoever wrote the repository decides its configuration, hooks and attributes."""
    marker = project.parent / "ran"
    program = project.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n", encoding="utf-8")
    program.chmod(0o755)
    for name in (
        *("core.fsmonitor", "core.pager", "pager.log", "diff.external", "diff.evil.textconv"),
        *("diff.evil.command", "gpg.program", "core.sshCommand", "core.alternateRefsCommand"),
        *("filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "core.editor"),
    ):
        git(project, "config", name, str(program))
    git(project, "config", "log.showSignature", "true")
    git(project, "config", "core.hooksPath", str(project.parent))
    git(project, "config", "diff.orderFile", str(program))
    (project / ".gitattributes").write_text("* diff=evil filter=evil\n", encoding="utf-8")
    living = LivingMemory(store, ADA)

    await take_history(living, project)

    assert isinstance(living.related, RelatedFiles)
    assert [each.path for each in living.related.beside("src/price.py", 5)] == [
        "tests/test_price.py"
    ]
    assert not marker.exists()
