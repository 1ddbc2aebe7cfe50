"""What Spark keeps in the checkpoint of a streaming query, as far as a run has to know it.

offsets/7      written before micro-batch 7 begins: a version, settings of the micro-batch, an offset per source
commits/7      written when micro-batch 7 has ended
"""

from __future__ import annotations

import json
from pathlib import Path


def batch_time(checkpoint: Path, batch: int) -> int:
    """Return when a micro-batch was begun for the first time, in microseconds since 1970."""
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[1])["batchTimestampMs"]) * 1000
