import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20240611)


@pytest.fixture
def draw(rng):
    return lambda *shape: rng.standard_normal(shape, dtype=np.float32)
