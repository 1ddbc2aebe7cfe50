"""Takes over the query over correlations of versions in which it read the sources itself (f693179 and later).

    beginning.json   format 1: places in the sources; f693179 had no such file and read them from their start
    offsets/7        an offset for each source, in the order of the streams
    sources/0        the files of a table, or of a folder (f693179), as Spark's own file source has listed them
    folders/in       the listing log of a folder

Such a query read at its own pace, so it could be ahead of the filters of a stream, or behind them. Its state is taken
over where both have read the same messages, as they have after a run with ``--once``; else the run is refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from twigcast import config
from twigcast.delivery.files import read_record, replace
from twigcast.errors import TwigcastError
from twigcast.spark.beginning import FILE, Beginning
from twigcast.spark.checkpoint import log_files, log_rows, numbers, offsets
from twigcast.spark.sources.listing import Listing
from twigcast.spark.sources.spark_log import listed_files


def take_over(
    checkpoint: Path, settings: config.Pipeline, last: Mapping[str, int], listings: Mapping[str, Listing]
) -> Beginning:
    """Let a checkpoint go on behind the last batch of each stream, which ``last`` has by name.

    Raises TwigcastError (``earlier-correlations``) if filters and correlations have not read the same messages.
    """
    saved = read_record(checkpoint / FILE) if (checkpoint / FILE).exists() else {}
    batch = max(numbers(checkpoint / "commits"), default=-1)
    if max(numbers(checkpoint / "offsets"), default=-1) > batch:
        raise _refusal("did not end their last micro-batch")
    ends = offsets(checkpoint, batch) if batch >= 0 else []
    for place, (name, stream) in enumerate(settings.streams.items()):
        if not isinstance(stream, config.Directory | config.Kafka | config.Table):
            continue  # it cannot be replayed anyway
        if place >= len(ends):
            same = last[name] + 1 == saved.get("streams", {}).get(name, {"batch": 0})["batch"]
        elif name in listings:
            same = _has_listed_the_same(listings[name], last[name], checkpoint, place, ends[place])
        else:
            of_stream = settings.state.checkpoints / name
            known = offsets(of_stream, last[name])[0] if last[name] >= 0 else {}
            same = _read(of_stream, 0, known) == _read(checkpoint, place, ends[place])
        if not same:
            raise _refusal(f"have read other messages of the stream {name!r} than its filters")
    beginning = Beginning(int(saved.get("first", 0)), dict(last), earlier=True)
    beginning.write(checkpoint)
    return finish(checkpoint, beginning)


def finish(checkpoint: Path, beginning: Beginning) -> Beginning:
    """Rewrite the offsets of a checkpoint, once more after a crash, and delete what it no longer needs."""
    for batch in numbers(checkpoint / "offsets"):
        path = checkpoint / "offsets" / str(batch)
        head = path.read_text(encoding="utf-8").splitlines()[:2]
        path.with_name(f".{batch}.crc").unlink(missing_ok=True)  # of the old content
        replace(path, "\n".join([*head, json.dumps(beginning.streams)]).encode())
    for name in ("sources", "folders"):
        shutil.rmtree(checkpoint / name, ignore_errors=True)
    done = Beginning(beginning.first, beginning.streams)
    done.write(checkpoint)
    return done


def _has_listed_the_same(listing: Listing, last: int, checkpoint: Path, place: int, end: Mapping[str, Any]) -> bool:
    """Whether correlations have read the files of a folder that batches up to ``last`` have, and no other."""
    if "logOffset" in end:
        read = {path for _, path in listed_files(checkpoint / "sources" / str(place), end["logOffset"], listing.root)}
    else:
        with closing(Listing(checkpoint / "folders" / listing.path.parent.name, listing.root)) as own:
            read = set(own.taken(end.get("entry", -1) + 1))
    matched = set(listing.taken(last + 1))
    # What has been cleared away may have been forgotten by one of the two.
    return matched <= read and not any((listing.root / path).exists() for path in read - matched)


def _read(checkpoint: Path, place: int, end: Mapping[str, Any]) -> object:
    """Return what a query has read up to an offset: the files of a table, or the offset itself."""
    if "logOffset" not in end:
        return end
    files = log_files(checkpoint / "sources" / str(place), end["logOffset"])
    return {row["path"] for file in files for row in log_rows(file) if row["batchId"] <= end["logOffset"]}


def _refusal(what: str) -> TwigcastError:
    return TwigcastError(
        "earlier-correlations",
        f"the correlations of an earlier version of Twigcast {what}",
        hint="run the earlier version once more with --once, while no message arrives; this one then goes on there",
    )
