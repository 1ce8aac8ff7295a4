"""What tests of models share: a scripted server, and a model of each API that asks it."""

from collections.abc import AsyncIterator

import pytest

from ctxmgr.models.choice import HttpModel
from tests.models.asking import made
from tests.models.model_server import APIS, ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
def waits() -> list[float]:
    """How long the model would have waited between its tries."""
    return []


@pytest.fixture(params=APIS)
async def model(
    request: pytest.FixtureRequest, server: ModelServer, waits: list[float]
) -> AsyncIterator[HttpModel]:
    """A model of each API; it notes its pauses instead of making them."""

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async with made(request.param, server, wait=wait) as model:
        yield model
