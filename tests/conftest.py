"""Where the third-party test data lies, for every test that needs it; and how random the random tests are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# The same examples every time, so that a change is judged by what it changes; `make test-all` looks for new ones.
settings.register_profile("steady", derandomize=True)
settings.register_profile("random", derandomize=False)
settings.load_profile("random" if os.environ.get("TWIGCAST_RANDOM_TESTS") else "steady")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """``../shared/data`` beside the project; the test is skipped where it is absent."""
    data = ROOT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip("needs ../shared/data beside the project")
    return data
