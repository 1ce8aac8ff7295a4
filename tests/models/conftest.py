"""Fixtures for tests of models: a scripted server, and a model of each API that uses it."""

from collections.abc import AsyncIterator

import pytest

from ctxmgr.models.open_model import HttpModel
from tests.models.model_server import APIS, ModelServer
from tests.models.requests import make_model


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
def waits() -> list[float]:
    """The seconds that the model would have waited between attempts."""
    return []


@pytest.fixture(params=APIS)
async def model(
    request: pytest.FixtureRequest, server: ModelServer, waits: list[float]
) -> AsyncIterator[HttpModel]:
    """A model of each API that records its pauses instead of waiting."""

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async with make_model(request.param, server, wait=wait) as model:
        yield model
