"""Fixtures shared by the whole suite."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real slides and real features beside the checkout; the test is skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real slides and features are not beside this checkout")
    return SHARED_DATA
