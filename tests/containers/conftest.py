"""One XTDB server in a container and a client in another, for all tests here."""

from collections.abc import Iterator

import pytest
from testcontainers.core.network import Network

from tests.components import need
from tests.containers.images import Images, made_images
from tests.containers.machines import Machine, Server


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    for component in ("docker", "java", "maven"):
        need(component)
    with made_images(tmp_path_factory.mktemp("server-image")) as images:
        yield images


@pytest.fixture(scope="module")
def network(images: Images) -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture(scope="module")
def server(images: Images, network: Network) -> Iterator[Server]:
    with Server(images.server, network=network) as server:
        yield server


@pytest.fixture(scope="module")
def another_machine(
    images: Images, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    packages = tmp_path_factory.mktemp("packages")
    with Machine(images.client, network=network, packages=packages) as machine:
        yield machine
