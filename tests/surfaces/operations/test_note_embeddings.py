"""`ctxmgr search --embeddings`: vectors of a provider's model, from a server on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.app import App
from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.config import SearchConfig
from ctxmgr.models.embeddings import OpenAIEmbeddings
from ctxmgr.settings import load_settings
from tests.loopback import Loopback

KEY = "sk-scripted-0123456789"
DIMENSIONS = SearchConfig().embedding_dimensions


class Embeddings:
    """Embeds texts about drinks in one direction, and all others in another."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status = 200
        self.dimensions = DIMENSIONS

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        self.asked.append({**body, "authorized": KEY in head})
        data = [
            {"index": number, "embedding": self._vector(text)}
            for number, text in enumerate(body["input"])
        ]
        answer = json.dumps({"data": data[::-1]}).encode()
        writer.write(
            f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer
        )
        await writer.drain()
        return True

    def _vector(self, text: str) -> list[float]:
        about = any(word in text for word in ("tea", "beverage"))
        return (
            [1.0, 0.0, *[0.0] * (self.dimensions - 2)]
            if about
            else [0.0, 1.0] + [0.0] * (self.dimensions - 2)
        )


@pytest.fixture
async def server() -> AsyncIterator[tuple[Embeddings, str]]:
    served = Embeddings()
    loopback = Loopback(served.converse)
    port = await loopback.open()
    yield served, f"http://127.0.0.1:{port}"
    await loopback.close()


@pytest.fixture
def notes(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    people = home / "notes/knowledge/people"
    people.mkdir(parents=True)
    (people / "ann.md").write_text("Ann likes tea. ghp_" + "a1B2" * 9 + "\n", encoding="utf-8")
    (people / "bob.md").write_text("Bob plays the violin.\n", encoding="utf-8")
    return home / "notes"


async def test_notes_are_compared_by_a_providers_vectors(
    notes: Path, server: tuple[Embeddings, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each note is sent once, without secrets; words decide if it is down.

    Rows: 002-R209, 002-R225, 002-R236.
    """
    served, url = server
    monkeypatch.setenv("CTXMGR_API", "openai")
    monkeypatch.setenv("CTXMGR_BASE_URL", url)
    monkeypatch.setenv("CTXMGR_OPENAI_API_KEY", KEY)
    async with App(load_settings()) as app:
        search = {"limit": 1, "category": None, "embeddings": True}
        found = await app.search_notes(notes, "beverages", **search)  # type: ignore[arg-type]
        again = await app.search_notes(notes, "beverages", **search)  # type: ignore[arg-type]
        served.status = 500
        by_words = await app.search_notes(notes, "violin", **search)  # type: ignore[arg-type]

    assert [found[0].path, again[0].path] == ["knowledge/people/ann.md"] * 2
    assert by_words[0].path == "knowledge/people/bob.md"
    assert [len(each["input"]) for each in served.asked] == [2, 1, 1, 1]
    assert {each["model"] for each in served.asked} == {"text-embedding-3-small"}
    assert all(each["authorized"] and each["dimensions"] == 1536 for each in served.asked)
    assert "a1B2a1B2" not in json.dumps(served.asked)
    assert not (notes / "memory.db").exists()


async def test_what_does_not_fit_is_refused(server: tuple[Embeddings, str]) -> None:
    """Vectors of another length cannot be stored; without a key nobody is asked."""
    served, url = server
    served.dimensions = 8

    with pytest.raises(Incorrect, match="embedding_dimensions"):
        await asyncio.to_thread(
            OpenAIEmbeddings("m", dimensions=9, key=None, base_url=url).vectors, ["a"]
        )
    with pytest.raises(Incorrect, match="OPENAI_API_KEY"):
        OpenAIEmbeddings("m", dimensions=9, key=None)
