from collections.abc import Iterator

import pytest

from tests.distributed.processes import Processes


@pytest.fixture(scope="package")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(2, tmp_path_factory.mktemp("two"))
    yield processes
    processes.stop()


@pytest.fixture(scope="package")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(4, tmp_path_factory.mktemp("four"))
    yield processes
    processes.stop()
