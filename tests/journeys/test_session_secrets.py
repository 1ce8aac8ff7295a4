"""Secrets that a client's policy keeps out of the store."""

from pathlib import Path

import ctxmgr
from ctxmgr.core.objects.hashes import file_hash
from ctxmgr.core.secrets.masking import Secrets

SECRET = "gh" + "p_" + "A1b2" * 9
TEXT = f"token: {SECRET}\n"


async def test_dropped_secrets_are_in_no_stored_content(tmp_path: Path) -> None:
    """Neither outputs nor files, and the file itself is still known by its own bytes."""
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


async def test_by_default_contents_are_stored_and_plainly_shown_as_they_are(tmp_path: Path) -> None:
    """003-A31: the plain form is what was read, byte for byte; masking comes with a policy."""
    (tmp_path / "a.yml").write_text(TEXT, encoding="utf-8")
    async with ctxmgr.connect("sqlite://:memory:", directory=str(tmp_path)) as client:
        session = await client.start("s1", system_prompt="")
        file = await session.read("a.yml")
        text = await session.render()

    assert file.content == TEXT
    assert TEXT in text


async def test_a_file_is_unchanged_while_it_is_masked_alike(tmp_path: Path) -> None:
    """Reading it again must not make a version of every masked file."""
    (tmp_path / "a.yml").write_text(TEXT, encoding="utf-8")
    async with ctxmgr.connect(
        "sqlite://:memory:", directory=str(tmp_path), secrets=Secrets.DROP
    ) as client:
        session = await client.start("s1", system_prompt="")
        file = await session.read("a.yml")
        await session.read("a.yml")
        page = await client.store.history(file.object_id)

    assert len(page.entries) == 1
