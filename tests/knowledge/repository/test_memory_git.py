"""MemoryGit: commits that leave a person's work alone, tags, reverts, pushes."""

import json
import os
import shutil
from datetime import date
from pathlib import Path

import pytest

from ctxmgr.errors import Conflict, Denied, Incorrect, NotFound, Unavailable
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository import commits
from ctxmgr.knowledge.repository import git as git_module
from ctxmgr.knowledge.repository.branches import Branches
from ctxmgr.knowledge.repository.git import Git
from ctxmgr.knowledge.repository.introspection import Introspection
from ctxmgr.knowledge.repository.memory_git import MemoryGit

from .conftest import RunsGit

ADA = "knowledge/people/ada.md"
TEXT = (
    "---\ntype: person\nname: Ada\nupdated: 2026-11-18T10:00:00Z\n---\n"
    "# Ada\n\none\n\ntwo\n\nthree\n"
)
HTTPS = "https://example.invalid/notes"
CONVERSATION = "raw/conversations/2026/11/18/1000-ses_0123abcd-hello.md"


def write(layout: Layout, path: str, text: str) -> None:
    file = layout.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


async def test_a_batch_is_one_commit_with_its_session(memory: MemoryGit, git: RunsGit) -> None:
    """002-R062, 002-R063, 002-R065, 002-R207, 002-R067: on main, without a pull request."""
    write(memory.layout, ADA, TEXT)
    write(memory.layout, "topics/mail.md", "---\ntype: topic\ntriggers: []\n---\n")

    made = await memory.batch_commit(session=CONVERSATION)

    assert made is not None
    assert made.message == git("log", "-1", "--format=%B").rstrip("\n") + "\n"
    assert made.message.startswith("memory: add ada, mail\n\n")
    assert made.message.endswith(f"\n\nSession: {CONVERSATION}\n")
    assert git("status", "--porcelain") == ""
    assert git("branch", "--show-current") == "main\n"
    assert await memory.batch_commit() is None
    git("fsck", "--strict")


async def test_removed_notes_are_committed_and_ignored_files_are_not(
    memory: MemoryGit, git: RunsGit
) -> None:
    """002-R084: what is derived, temporary or secret is not kept."""
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    (memory.layout.root / ADA).unlink()
    for path in ("knowledge/secrets/x.md", "knowledge/people/a.tmp", "topics/.DS_Store"):
        write(memory.layout, path, "x\n")

    made = await memory.batch_commit("forget her")

    assert made is not None
    assert made.paths == (ADA,)
    assert made.message.startswith("memory: forget her\n")
    assert git("status", "--porcelain") == ""


async def test_staged_work_of_a_person_stays_staged(memory: MemoryGit, git: RunsGit) -> None:
    """Staged files and hunks are the person's; a commit of ours has none of them."""
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    write(memory.layout, "todo.txt", "mine\n")
    git("add", "todo.txt")
    write(memory.layout, ADA, TEXT.replace("one", "ONE"))
    git("add", ADA)
    write(memory.layout, ADA, TEXT.replace("one", "ONE").replace("three", "THREE"))
    write(memory.layout, "knowledge/people/bob.md", TEXT)
    staged, unstaged = git("diff", "--cached"), git("diff")

    made = await memory.batch_commit()

    assert made is not None
    assert made.paths == ("knowledge/people/bob.md",)
    assert made.remarks[0].startswith(f"{ADA}: you have staged")
    assert git("diff", "--cached") == staged
    assert git("diff") == unstaged
    assert await memory.batch_commit() is None
    (left,) = memory.left_out
    assert left.startswith(f"{ADA}: you have staged")  # it is named without a commit, too


@pytest.mark.parametrize("name", sorted(set(commits.IN_PROGRESS) - {"rebase-apply"}))
async def test_nothing_is_committed_in_the_middle_of_something(
    memory: MemoryGit, git: RunsGit, name: str
) -> None:
    """A rebase, merge or cherry-pick is the person's to finish; notes wait on disk."""
    write(memory.layout, ADA, TEXT)
    place = memory.layout.root / ".git" / name
    place.mkdir() if name.startswith("rebase") else place.write_text("0" * 40 + "\n")
    before = git("rev-parse", "HEAD")

    with pytest.raises(Unavailable, match="in progress"):
        await memory.batch_commit()

    assert git("rev-parse", "HEAD") == before
    assert (memory.layout.root / ADA).read_text(encoding="utf-8") == TEXT


async def test_a_detached_head_and_a_lock_are_named(
    memory: MemoryGit, git: RunsGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to do; the lock of another program is not removed."""
    write(memory.layout, ADA, TEXT)
    lock = memory.layout.root / ".git" / "index.lock"
    lock.write_text("somebody else's", encoding="utf-8")
    monkeypatch.setattr(commits, "LOCK_WAIT_SECONDS", 0.0)

    with pytest.raises(Unavailable, match=r"index\.lock exists"):
        await memory.batch_commit()
    assert lock.read_text(encoding="utf-8") == "somebody else's"
    lock.unlink()
    git("checkout", "-q", "--detach")
    with pytest.raises(Unavailable, match="detached"):
        await memory.batch_commit()


async def test_a_conflict_in_the_index_is_named(memory: MemoryGit, git: RunsGit) -> None:
    """Unmerged entries without a merge in progress: git stash pop leaves them."""
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    write(memory.layout, ADA, TEXT.replace("one", "person"))
    git("stash")
    write(memory.layout, ADA, TEXT.replace("one", "agent"))
    await memory.batch_commit()
    git("stash", "pop", fails=True)

    with pytest.raises(Unavailable, match="conflict"):
        await memory.batch_commit()


async def test_a_killed_commit_is_finished_by_the_next(memory: MemoryGit, git: RunsGit) -> None:
    """Between the branch and the index there is an instant; the journal bridges it (PG-32)."""
    write(memory.layout, ADA, TEXT)
    index = (memory.layout.root / ".git" / "index").read_bytes()
    made = await memory.batch_commit()
    assert made is not None
    folder = memory.layout.root / ".git" / "ctxmgr"
    (folder / "index.new").write_bytes((folder.parent / "index").read_bytes())
    (folder.parent / "index").write_bytes(index)
    (folder.parent / "index.lock").write_bytes(b"ctxmgr\n")
    (folder / "commit.json").write_text(json.dumps({"commit": made.id}), encoding="utf-8")
    assert git("status", "--porcelain") != ""

    assert await memory.batch_commit() is None

    assert git("status", "--porcelain") == ""
    assert not (folder.parent / "index.lock").exists()


async def test_a_lock_of_ours_is_never_without_its_token(
    memory: MemoryGit, git: RunsGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-32: killed right after it took the lock, a process leaves one that the next can remove."""
    write(memory.layout, ADA, TEXT)
    lock = memory.layout.root / ".git" / "index.lock"

    class Killed(BaseException):
        pass

    link = os.link

    def killed(source: Path, target: Path) -> None:
        link(source, target)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(commits.os, "link", killed)
        with pytest.raises(Killed):
            await memory.batch_commit()
    assert lock.read_bytes() == b"ctxmgr\n"

    assert await memory.batch_commit() is not None
    assert git("status", "--porcelain") == ""
    assert not lock.exists()


async def test_locks_need_no_hard_links(memory: MemoryGit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository on a memory stick has none."""
    write(memory.layout, ADA, TEXT)

    def refused(_: Path, __: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(commits.os, "link", refused)

    assert await memory.batch_commit() is not None


async def test_without_an_identity_the_author_is_ctxmgr(memory: MemoryGit, git: RunsGit) -> None:
    """A fresh machine has none; a commit must not fail for it, and says so."""
    write(memory.layout, ADA, TEXT)

    made = await memory.batch_commit()

    assert made is not None
    assert any("who you are" in remark for remark in made.remarks)
    assert git("log", "-1", "--format=%an <%ae>") == "ctxmgr <ctxmgr@localhost>\n"


async def test_a_missing_git_and_a_folder_without_repository_are_named(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes work without git; what needs it says what to do."""
    with pytest.raises(NotFound):
        await MemoryGit(layout).batch_commit()
    layout.root.mkdir()
    with pytest.raises(Incorrect, match="knowledge init"):
        await MemoryGit(layout).batch_commit()
    await Git(layout.root).output("init", "-q", "--bare", ".")
    with pytest.raises(Incorrect, match="bare"):
        await MemoryGit(layout).batch_commit()
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(Unavailable, match="not installed"):
        await MemoryGit(layout).batch_commit()


async def test_a_repository_around_the_folder_is_not_used(layout: Layout, tmp_path: Path) -> None:
    """A folder inside of somebody's project: the project's history gets none of the notes."""
    await Git(tmp_path).output("init", "-q", ".")
    layout.root.mkdir()

    with pytest.raises(Incorrect, match="not a git repository"):
        await MemoryGit(layout).batch_commit()


async def test_a_repository_starts_no_programs(
    memory: MemoryGit, git: RunsGit, tmp_path: Path
) -> None:
    """A clone is data: hooks, filters, diffs, drivers and helpers that it names do not run."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {ran}\ncat\n", encoding="utf-8")
    program.chmod(0o755)
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "diff.external",
        "gpg.program",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.command",
        "diff.evil.textconv",
        "merge.evil.driver",
        "credential.helper",
        "core.askPass",
        "sequence.editor",
        "core.alternateRefsCommand",
        "uploadpack.packObjectsHook",
    ]:
        git("config", key, str(program))
    for key in ("commit.gpgSign", "tag.gpgSign", "log.showSignature", "push.gpgSign"):
        git("config", key, "true")
    attributes = memory.layout.root / ".git" / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* filter=evil diff=evil merge=evil\n", encoding="utf-8")
    hooks = memory.layout.root / ".git" / "hooks"
    for name in ("post-index-change", "reference-transaction", "pre-push", "post-commit"):
        shutil.copy(program, hooks / name)
    write(memory.layout, ADA, TEXT.replace("one", "ONE"))
    await Git(tmp_path).output("init", "-q", "--bare", "remote.git")
    ran.unlink(missing_ok=True)

    made = await memory.batch_commit()
    assert made is not None
    history = Introspection(memory.git)
    await history.learnt("ONE")
    await history.origins(ADA)
    await history.changes("HEAD^")
    await memory.tag_milestone("safe", "now")
    branches = Branches(memory)
    await branches.create("explore/a", start="HEAD^")
    await branches.commit("explore/a", {ADA: TEXT.replace("three", "THREE")}, summary="x")
    await branches.merge("explore/a")
    await memory.revert(made.id)
    pushing = MemoryGit(memory.layout, find_secrets=lambda _: ())
    await pushing.push(str(tmp_path / "remote.git"))

    assert not ran.exists(), ran.read_text(encoding="utf-8")


async def test_a_conversation_is_committed_at_once_in_its_own_repository(
    memory: MemoryGit, git: RunsGit
) -> None:
    """002-R061, 002-R065, 002-R004, 002-A02, 002-R021: outside of the workspace."""
    file = memory.layout.raw / CONVERSATION
    file.parent.mkdir(parents=True)
    file.write_text("---\nsession_id: ses_0123abcd\n---\n", encoding="utf-8")

    made = await memory.commit_conversation(CONVERSATION, slug="hello")

    assert made is not None
    assert made.message == f"conversation: hello\n\nSession: {CONVERSATION}\n"
    assert await memory.commit_conversation(CONVERSATION, slug="hello") is None
    assert CONVERSATION not in git("ls-files")
    assert (await Git(memory.layout.raw).output("ls-files")).split() == [".gitignore", CONVERSATION]


async def test_tags_of_days_weeks_milestones(memory: MemoryGit, git: RunsGit) -> None:
    """002-R070, 002-R071, 002-R072, 002-R073, 002-R081: states that can be named later."""
    today = date.fromisoformat(git("log", "-1", "--format=%cd", "--date=format:%Y-%m-%d").strip())
    year, week, _ = today.isocalendar()

    assert await memory.tag_daily(today) == f"memory/daily/{today}"
    assert await memory.tag_daily(date(2020, 1, 1)) is None
    assert await memory.tag_weekly(today) == f"memory/weekly/{year}-W{week:02}"
    assert await memory.tag_milestone("first", "It works") == "memory/milestone/first"
    assert await memory.tag_before("surgery") == "memory/before/surgery"
    assert await memory.tag_extract("v2") == "memory/extract/v2"
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    with pytest.raises(Conflict):
        await memory.tag_milestone("first", "again")
    for name in ("-d", "a b", "../x", "a..b", ""):
        with pytest.raises(Incorrect):
            await memory.tag_milestone(name, "x")

    assert len(git("tag").split()) == 5


async def test_a_revert_undoes_one_commit_and_keeps_later_ones(
    memory: MemoryGit, git: RunsGit
) -> None:
    """002-R081: undo a bad update; what came after it stays."""
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    write(memory.layout, ADA, TEXT.replace("one", "wrong"))
    bad = await memory.batch_commit()
    write(memory.layout, ADA, TEXT.replace("one", "wrong").replace("three", "later"))
    await memory.batch_commit()
    assert bad is not None

    made = await memory.revert(bad.id)

    assert NotesFolder(memory.layout).read(ADA).text == TEXT.replace("three", "later")
    assert f"This reverts commit {bad.id}." in made.message
    assert git("status", "--porcelain") == ""
    with pytest.raises(Incorrect, match="already"):
        await memory.revert(bad.id)


async def test_a_revert_that_would_lose_something_changes_nothing(
    memory: MemoryGit, git: RunsGit
) -> None:
    """Uncommitted edits and later changes of the same lines are kept (002-R081)."""
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    write(memory.layout, ADA, TEXT.replace("one", "wrong"))
    bad = await memory.batch_commit()
    assert bad is not None
    write(memory.layout, ADA, TEXT.replace("one", "a person is typing"))
    with pytest.raises(Conflict):
        await memory.revert(bad.id)
    await memory.batch_commit()

    with pytest.raises(Conflict):
        await memory.revert(bad.id)

    assert "a person is typing" in NotesFolder(memory.layout).read(ADA).text
    with pytest.raises(NotFound):
        await memory.revert("--all")


async def test_a_push_goes_nowhere_with_a_secret(
    memory: MemoryGit, git: RunsGit, tmp_path: Path
) -> None:
    """002-A34, 002-R207: pushing is asked for, and what was once committed counts."""
    await Git(tmp_path).output("init", "-q", "--bare", "remote.git")
    pushing = MemoryGit(
        memory.layout, find_secrets=lambda text: ["token"] if "hunter2" in text else []
    )
    with pytest.raises(NotFound, match="no remote"):
        await pushing.push()
    git("remote", "add", "origin", f"ext::sh -c 'touch {tmp_path}/ran'")
    with pytest.raises(Denied):
        await pushing.push()
    place = str(tmp_path / "remote.git")
    await memory.tag_milestone("first", "x")

    done = await pushing.push(place)

    remote = Git(tmp_path / "remote.git")
    assert (await remote.output("rev-parse", "refs/heads/main")).strip() == done.commit
    assert "memory/milestone/first" in await remote.output("tag")
    write(memory.layout, ADA, TEXT + "hunter2\n")
    await memory.batch_commit()
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    with pytest.raises(Denied, match=rf"{ADA} has a secret \(token\)"):
        await pushing.push(place)
    with pytest.raises(Incorrect, match="check for secrets"):
        await memory.push()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", ["commit", "tag"])
async def test_a_message_with_a_secret_is_not_pushed(
    memory: MemoryGit, git: RunsGit, tmp_path: Path, place: str
) -> None:
    """002-A34: a message is published as well."""
    await Git(tmp_path).output("init", "-q", "--bare", "remote.git")
    pushing = MemoryGit(
        memory.layout, find_secrets=lambda text: ["token"] if "hunter2" in text else []
    )
    if place == "commit":
        git("commit", "-q", "--no-verify", "--allow-empty", "-m", "use hunter2")
    else:
        await memory.tag_milestone("first", "use hunter2")

    with pytest.raises(Denied, match=r"(the commit \w{10}|first) has a secret \(token\)"):
        await pushing.push(str(tmp_path / "remote.git"))

    assert await Git(tmp_path / "remote.git").output("for-each-ref") == ""


async def test_what_was_checked_is_pushed(memory: MemoryGit, git: RunsGit, tmp_path: Path) -> None:
    """002-A34: a commit that is made during the check waits for the next push."""
    await Git(tmp_path).output("init", "-q", "--bare", "remote.git")
    head = git("rev-parse", "HEAD").strip()
    made: list[str] = []

    def commits_meanwhile(_: str) -> list[str]:
        if not made:
            made.append(git("commit", "-q", "--no-verify", "--allow-empty", "-m", "use hunter2"))
        return []

    await MemoryGit(memory.layout, find_secrets=commits_meanwhile).push(
        str(tmp_path / "remote.git")
    )

    remote = Git(tmp_path / "remote.git")
    assert (await remote.output("rev-parse", "refs/heads/main")).strip() == head
    assert git("rev-parse", "HEAD").strip() != head


@pytest.mark.parametrize(
    ("address", "key", "value"),
    [
        ("{0}", "protocol.file.allow", "always"),
        ("file://{0}", "protocol.file.allow", "always"),
        ("ext::{1}", "protocol.ext.allow", "always"),
        (HTTPS, "url.ext::sh -c '{1}' .insteadOf", HTTPS),
        (HTTPS, "url.{0}.pushInsteadOf", HTTPS),
        (HTTPS, f"remote.{HTTPS}.vcs", "ext"),
        (HTTPS, f"remote.{HTTPS}.pushurl", "{0}"),
        (HTTPS, "http.sslVerify", "false"),
        (HTTPS, f"credential.{HTTPS}.helper", "!{1}"),
    ],
)
async def test_a_push_runs_nothing_that_the_repository_chose(
    memory: MemoryGit, git: RunsGit, tmp_path: Path, address: str, *, key: str, value: str
) -> None:
    """Neither hooks at a path of its configuration, nor a program by a rewritten address."""
    ran, place = tmp_path / "ran", tmp_path / "remote.git"
    await Git(tmp_path).output("init", "-q", "--bare", "remote.git")
    program = place / "hooks" / "post-receive"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
    program.chmod(0o755)
    git("remote", "add", "origin", address.format(place, program))
    git("config", key.format(place, program), value.format(place, program))
    pushing = MemoryGit(memory.layout, find_secrets=lambda _: ())

    with pytest.raises(Denied):
        await pushing.push()

    assert not ran.exists()


async def test_no_setting_allows_a_protocol(
    memory: MemoryGit, git: RunsGit, tmp_path: Path
) -> None:
    """The environment of a command decides, not the repository."""
    git("config", "protocol.ext.allow", "always")
    git("config", "protocol.allow", "always")

    result = await memory.git.run("ls-remote", f"ext::touch {tmp_path}/ran")

    assert "not allowed" in result.err
    assert not (tmp_path / "ran").exists()


async def test_notes_with_errors_and_attachments_wait(memory: MemoryGit, git: RunsGit) -> None:
    """002-R075, 002-R085: one bad note holds up no others; LFS files never go in as they are."""
    write(memory.layout, "knowledge/memory/MEMORY.md", "x\n" * 221)
    write(memory.layout, "knowledge/people/bad.md", "---\na: [\n---\n")
    write(memory.layout, ADA, TEXT)
    write(memory.layout, "attachments/2026/map.png", "png")
    write(memory.layout, "attachments/data.csv", "a,b\n")

    made = await memory.batch_commit()

    assert made is not None
    assert made.paths == ("attachments/data.csv", ADA)
    assert sorted(remark.partition(":")[0] for remark in made.remarks)[0:2] == [
        "attachments/2026/map.png",
        "git does not know who you are, the author is ctxmgr",
    ]
    assert "git-lfs" in "".join(made.remarks)
    assert "220" in "".join(made.remarks)


async def test_a_branch_is_filled_merged_and_pruned_without_a_checkout(
    memory: MemoryGit, git: RunsGit, tmp_path: Path
) -> None:
    """002-R068, 002-R069, 002-R008, 002-R199: what-if work leaves the person's files alone."""
    write(memory.layout, ADA, TEXT)
    await memory.batch_commit()
    branches = Branches(memory)
    await branches.create("explore/idea")
    await branches.create("extract/v2")
    await branches.commit(
        "extract/v2", {ADA: TEXT.replace("one", "ONE"), "topics/new.md": "# New\n"}, summary="try"
    )
    assert NotesFolder(memory.layout).read(ADA).text == TEXT
    assert "topics/new.md" in await branches.statistics("extract/v2")
    assert "topics/new.md" in await branches.export("extract/v2", tmp_path / "work")
    write(memory.layout, ADA, TEXT.replace("three", "THREE"))
    await memory.batch_commit()

    made = await branches.merge("extract/v2")

    assert made.message.startswith("extract: merge extract/v2")
    merged = NotesFolder(memory.layout).read(ADA).text
    assert merged == TEXT.replace("one", "ONE").replace("three", "THREE")
    assert git("status", "--porcelain") == ""
    (state,) = await branches.all()
    assert (state.name, state.ahead) == ("explore/idea", 0)
    week = 7 * 24 * 3600 * 1000
    assert await branches.prune(now=state.modified + week) == []
    assert await branches.prune(now=state.modified + week + 1) == ["explore/idea"]
    assert state.commit in git("for-each-ref", "refs/ctxmgr/pruned")
    for name in ("main", "explore/../main", "explore/-x", "refs/heads/x"):
        with pytest.raises(Incorrect):
            await branches.create(name)


async def test_unusual_names_are_committed_as_they_are(memory: MemoryGit, git: RunsGit) -> None:
    """Names that git quotes or takes for patterns are names."""
    paths = sorted(
        f"knowledge/reference/{name}.md"
        for name in ("é ü", "a*b", "[x]", ":(top)", '"q"', "-n", "# y", "日本")
    )
    for path in paths:
        write(memory.layout, path, "x\n")

    made = await memory.batch_commit()

    assert made is not None
    assert sorted(made.paths) == paths
    assert git("status", "--porcelain") == ""
    entries = await Introspection(memory.git).log(paths[0])
    assert [entry.paths for entry in entries] == [(paths[0],)]


async def test_the_history_answers(memory: MemoryGit) -> None:
    """002-R078 to 002-R080, 002-R082, 002-R083, 002-R202: when, where from, what, as of."""
    write(memory.layout, ADA, TEXT)
    first = await memory.batch_commit(session=CONVERSATION)
    await memory.tag_before("change")
    write(memory.layout, ADA, TEXT.replace("two", "a fact"))
    second = await memory.batch_commit()
    assert first is not None
    assert second is not None
    history = Introspection(memory.git)

    (learnt,) = await history.learnt("a fact")
    origins = await history.origins(ADA)
    diff = await history.changes("memory/before/change")
    today = await history.today(date.fromisoformat(learnt.time[:10]))

    assert (learnt.commit, learnt.paths) == (second.id, (ADA,))
    assert [origin.commit for origin in origins if origin.text == "a fact"] == [second.id]
    assert {origin.session for origin in origins if origin.text == "one"} == {CONVERSATION}
    assert [(each.path, each.added, each.removed) for each in diff.files] == [(ADA, 1, 1)]
    assert "+a fact" in diff.diff
    assert {each.path for each in today.files} > {ADA}
    assert await history.as_of(ADA, "memory/before/change") == TEXT
    assert await history.changed_notes() == [ADA]
    for revision in ("nowhere", "--help", "HEAD; ls"):
        with pytest.raises(NotFound):
            await history.as_of(ADA, revision)
    with pytest.raises(Incorrect):
        await history.origins("../../etc/passwd")
    with pytest.raises(NotFound):
        await history.as_of("knowledge/people/bob.md", "HEAD")


async def test_a_command_that_prints_too_much_or_hangs_is_ended(
    memory: MemoryGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository can be made so that git never ends; the bound is ours."""
    monkeypatch.setattr(git_module, "OUTPUT_BYTES_MAX", 10)
    with pytest.raises(Unavailable, match="more than"):
        await memory.git.output("log")
    monkeypatch.setattr(git_module, "OUTPUT_BYTES_MAX", 10_000)
    monkeypatch.setattr(git_module, "COMMAND_SECONDS", 0.0)
    with pytest.raises(Unavailable, match="took more"):
        await memory.git.output("log")


def test_git_runs_without_the_environment_of_a_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside of a hook of another repository, GIT_DIR names that one."""
    monkeypatch.setenv("GIT_DIR", "/elsewhere/.git")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "program")
    environment = Git(tmp_path)._environment()

    assert "GIT_DIR" not in environment
    assert "GIT_EXTERNAL_DIFF" not in environment
    assert environment["PATH"] == os.environ["PATH"]
