"""The papers' tests use helpers of the product's tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("lang", "correlate", "transform")]
