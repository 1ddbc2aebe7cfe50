"""Where the third-party test data lies, for every test that needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """``../shared/data`` beside the project; the test is skipped where it is absent."""
    data = ROOT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip("needs ../shared/data beside the project")
    return data
