"""Embeddings of OpenAI's API, from OpenAI or another server. Touches the network.

Requests block: callers run them in a thread. Nothing is retried, since what was not embedded is
searched by words, and embedded the next time.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

import httpx

from ctxmgr.core.store.urls import redact_url
from ctxmgr.errors import Incorrect, ModelUnavailable
from ctxmgr.models.faults import status_error
from ctxmgr.models.openai import BASE_URL

BATCH_TEXTS: Final = 64
"""Texts of one request; the API takes 2,048 of a sentence each, and notes are longer."""
SECONDS_MAX: Final = 60.0
"""For one request."""
REPLY_BYTES_MAX: Final = 32 * 1024 * 1024
"""Ten times the numbers of a batch, written out."""

_OK: Final = 200


class OpenAIEmbeddings:
    """One model that embeds texts."""

    def __init__(
        self, name: str, *, dimensions: int, key: str | None, base_url: str | None = None
    ) -> None:
        if key is None and base_url is None:
            raise Incorrect("embeddings of OpenAI need a key: set OPENAI_API_KEY")
        self.name, self.dimensions = name, dimensions
        self._key = key
        self._url = f"{(base_url or BASE_URL).rstrip('/')}/embeddings"

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text; ``ModelUnavailable`` if the server does not answer."""
        found: list[list[float]] = []
        with httpx.Client(timeout=SECONDS_MAX) as client:
            for start in range(0, len(texts), BATCH_TEXTS):
                found += self._batch(client, list(texts[start : start + BATCH_TEXTS]))
        return found

    def _batch(self, client: httpx.Client, texts: list[str]) -> list[list[float]]:
        body = {"model": self.name, "input": texts, "dimensions": self.dimensions}
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        shown = redact_url(self._url)
        try:
            with client.stream("POST", self._url, json=body, headers=headers) as reply:
                data = b""
                for part in reply.iter_bytes():
                    data += part
                    if len(data) > REPLY_BYTES_MAX:
                        raise ModelUnavailable(f"{shown} sent more than {REPLY_BYTES_MAX:,} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelUnavailable(f"{shown} does not answer: {type(error).__name__}") from error
        if reply.status_code != _OK:
            raise status_error(
                reply.status_code,
                reply.headers,
                data,
                url=shown,
                key=self._key,
                now=datetime.now(UTC),
            )
        return self._read(data, count=len(texts), shown=shown)

    def _read(self, data: bytes, *, count: int, shown: str) -> list[list[float]]:
        try:
            entries = sorted(json.loads(data)["data"], key=lambda entry: int(entry["index"]))
            rows = [[_number(each) for each in entry["embedding"]] for entry in entries]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelUnavailable(f"{shown} sent an answer without embeddings") from error
        if len(rows) != count or any(len(row) != self.dimensions for row in rows):
            raise Incorrect(
                f"{shown} did not send {count} vectors of {self.dimensions} numbers: set"
                " embedding_dimensions to what the model has"
            )
        return rows


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not isfinite(value):
        raise ValueError("not a number")
    return float(value)
