"""Secrets that a client's policy keeps out of the store."""

from pathlib import Path

import ctxmgr
from ctxmgr.core.objects.hashes import file_hash
from ctxmgr.core.secrets.masking import Secrets

SECRET = "gh" + "p_" + "A1b2" * 9
TEXT = f"token: {SECRET}\n"


async def test_removed_secrets_are_in_no_stored_content(tmp_path: Path) -> None:
    """Neither in outputs nor in files; the file_hash is still that of the original bytes."""
    (tmp_path / "a.yml").write_text(TEXT, encoding="utf-8")
    url, directory = f"sqlite:///{tmp_path}/s.db", str(tmp_path)
    async with ctxmgr.connect(url, directory=directory, secrets=Secrets.DROP) as client:
        session = await client.start("s1", system_prompt="")
        file = await session.read("a.yml")
        call = await session.record("c1", tool="bash", args={}, output=TEXT)
        again = await session.read("a.yml")
        text = await session.render()

    assert SECRET not in text
    assert file.content == call.content == again.content
    assert file.file_hash == file_hash(TEXT.encode())


async def test_by_default_contents_are_stored_and_shown_unchanged(tmp_path: Path) -> None:
    """003-A31: the plain form shows the bytes that were read; masking comes with a policy."""
    (tmp_path / "a.yml").write_text(TEXT, encoding="utf-8")
    async with ctxmgr.connect("sqlite://:memory:", directory=str(tmp_path)) as client:
        session = await client.start("s1", system_prompt="")
        file = await session.read("a.yml")
        text = await session.render()

    assert file.content == TEXT
    assert TEXT in text


async def test_reading_a_masked_file_again_changes_nothing(tmp_path: Path) -> None:
    """Every read would otherwise make a new version."""
    (tmp_path / "a.yml").write_text(TEXT, encoding="utf-8")
    async with ctxmgr.connect(
        "sqlite://:memory:", directory=str(tmp_path), secrets=Secrets.DROP
    ) as client:
        session = await client.start("s1", system_prompt="")
        file = await session.read("a.yml")
        await session.read("a.yml")
        page = await client.store.history(file.object_id)

    assert len(page.entries) == 1
