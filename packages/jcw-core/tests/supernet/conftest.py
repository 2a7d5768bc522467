from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the supernet needs jcw-core[supernet]")
torch.set_num_threads(1)

from jcw_core.network import Network  # noqa: E402
from jcw_core.space import SearchSpace  # noqa: E402
from supernet_samples import BUILDERS, Blobs  # noqa: E402


@pytest.fixture(params=BUILDERS)
def network(request: pytest.FixtureRequest) -> Network:
    return BUILDERS[request.param]()


@pytest.fixture
def space(network: Network) -> SearchSpace:
    return SearchSpace.of(network)


@pytest.fixture
def dataset() -> Blobs:
    return Blobs(200)
