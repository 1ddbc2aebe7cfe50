"""The query over correlations of earlier versions, which read the sources itself, is taken over or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from earlier_checkpoints import old_checkpoint
from pipeline_files import Site

from twigcast.delivery.files import write_record
from twigcast.errors import TwigcastError
from twigcast.spark.beginning import Beginning
from twigcast.spark.earlier import finish, take_over
from twigcast.spark.sources.listing import Listing

FILES = [["0.xml"], ["1.xml", "2.xml"], ["3.xml"]]


class Earlier:
    """A pipeline whose stream and whose correlations an earlier version has read."""

    def __init__(self, folder: Path) -> None:
        self.site = Site(folder)
        checkpoints = self.site.settings.state.checkpoints
        self.of_stream, self.checkpoint = checkpoints / "in", checkpoints / "correlations"
        for name in ("0.xml", "1.xml", "2.xml", "3.xml"):
            self.site.put(name, "<a/>")

    def take_over(self, last: int) -> Beginning:
        listings = {}
        if "directory" in self.site.file.read_text().partition("[sinks")[0]:
            log = self.site.settings.state.log / "in"
            listings["in"] = Listing.opened(self.of_stream, self.site.inbox.resolve(), last, log)
        try:
            return take_over(self.checkpoint, self.site.settings, {"in": last}, listings)
        finally:
            for listing in listings.values():
                listing.close()

    def refuses(self, last: int, words: str) -> None:
        before = self.files()
        with pytest.raises(TwigcastError, match=words) as caught:
            self.take_over(last)
        assert caught.value.code == "earlier-correlations" and "--once" in (caught.value.hint or "")
        assert self.files() == before

    def files(self) -> dict[Path, bytes]:
        every = (path for path in self.checkpoint.rglob("*") if path.is_file() and path.name != "listing.db")
        return {path: path.read_bytes() for path in every}

    def offsets(self) -> list[Any]:
        files = sorted((self.checkpoint / "offsets").iterdir())
        return [json.loads(line) for file in files for line in file.read_text().splitlines()[2:]]


@pytest.fixture
def earlier(tmp_path: Path) -> Earlier:
    return Earlier(tmp_path / "site")


def listed(folder: Path, inbox: Path, entries: list[list[str]]) -> None:
    """Make a listing log with these micro-batches."""
    listing = Listing(folder, inbox)
    files = [(number, name) for number, names in enumerate(entries) for name in names]
    listing.take_over(files, len(entries) - 1)
    listing.close()


def ends(checkpoint: Path, *offsets: Mapping[str, Any]) -> None:
    """Make the offsets of a query with one source, whose micro-batches have all ended."""
    for part in ("offsets", "commits"):
        (checkpoint / part).mkdir(parents=True)
    for batch, offset in enumerate(offsets):
        (checkpoint / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{json.dumps(offset)}')
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def test_files_that_spark_listed(earlier: Earlier) -> None:
    """As commit f693179 read folders; filters and correlations cut micro-batches differently."""
    old_checkpoint(earlier.of_stream, earlier.site.inbox, FILES, [0, 1, 2])
    old_checkpoint(earlier.checkpoint, earlier.site.inbox, [["0.xml", "1.xml"], ["2.xml", "3.xml"]], [0, 1])
    assert earlier.take_over(2) == Beginning(0, {"in": 2})
    assert earlier.offsets() == [{"in": 2}] * 2
    assert not (earlier.checkpoint / "sources").exists() and not list(earlier.checkpoint.rglob("*.crc"))
    # The first lines have Spark's settings, and what else belongs to a micro-batch.
    assert "batchTimestampMs" in (earlier.checkpoint / "offsets" / "1").read_text().splitlines()[1]
    assert Beginning.read(earlier.checkpoint, earlier.site.settings.state.path) == Beginning(0, {"in": 2})


def test_after_a_crash_the_rest_is_done(earlier: Earlier) -> None:
    ends(earlier.checkpoint, {"entry": 4}, {"in": 2})
    (earlier.checkpoint / "folders").mkdir()
    Beginning(3, {"in": 2}, earlier=True).write(earlier.checkpoint)
    begun = Beginning.read(earlier.checkpoint, earlier.site.settings.state.path)
    assert begun is not None and begun.earlier
    assert finish(earlier.checkpoint, begun) == Beginning(3, {"in": 2})
    assert earlier.offsets() == [{"in": 2}] * 2 and not (earlier.checkpoint / "folders").exists()


@pytest.mark.parametrize(
    ("read", "words"),
    [
        ([["0.xml"], ["1.xml", "2.xml"]], "other messages of the stream 'in'"),
        ([["0.xml"], ["1.xml", "2.xml", "3.xml", "4.xml"]], "other messages"),
    ],
    ids=["behind", "ahead"],
)
def test_one_is_ahead_of_the_other(earlier: Earlier, read: list[list[str]], words: str) -> None:
    earlier.site.put("4.xml", "<a/>")
    listed(earlier.of_stream, earlier.site.inbox, FILES)
    listed(earlier.checkpoint / "folders" / "in", earlier.site.inbox, read)
    ends(earlier.checkpoint, {"entry": 0}, {"entry": 1})
    earlier.refuses(2, words)
    # A file that is no longer there has been read by both and cleared away.
    (earlier.site.inbox / "4.xml").unlink()
    if len(read[-1]) > 2:
        assert earlier.take_over(2).streams == {"in": 2}


def test_a_micro_batch_that_did_not_end(earlier: Earlier) -> None:
    listed(earlier.of_stream, earlier.site.inbox, FILES)
    listed(earlier.checkpoint / "folders" / "in", earlier.site.inbox, FILES)
    ends(earlier.checkpoint, {"entry": 1}, {"entry": 2})
    (earlier.checkpoint / "commits" / "1").unlink()
    earlier.refuses(2, "did not end their last micro-batch")


def test_a_query_that_has_not_read_anything(earlier: Earlier) -> None:
    listed(earlier.of_stream, earlier.site.inbox, FILES[:2])
    earlier.checkpoint.mkdir()
    write_record(earlier.checkpoint / "beginning.json", {"format": 1, "first": 5, "streams": {"in": {"batch": 2}}})
    assert earlier.take_over(1) == Beginning(5, {"in": 1})
    listed(earlier.of_stream, earlier.site.inbox, FILES)
    write_record(earlier.checkpoint / "beginning.json", {"format": 1, "first": 5, "streams": {"in": {"batch": 2}}})
    earlier.refuses(2, "other messages")


def test_kafka_and_tables(earlier: Earlier) -> None:
    text = earlier.site.file.read_text()
    kafka = 'source = "kafka"\nbootstrap_servers = "h:1"\ntopic = "t"'
    directory = f'source = "directory"\npath = "{earlier.site.inbox}"\nmax_files = 1000'
    earlier.site.file.write_text(text.replace(directory, kafka))
    ends(earlier.of_stream, {"t": {"0": 5}}, {"t": {"0": 7, "1": 2}})
    ends(earlier.checkpoint, {"t": {"0": 5, "1": 2}})
    earlier.refuses(1, "other messages")
    shutil.rmtree(earlier.checkpoint)
    ends(earlier.checkpoint, {"t": {"0": 7, "1": 2}})
    assert earlier.take_over(1).streams == {"in": 1} and earlier.offsets() == [{"in": 1}]

    for folder in (earlier.checkpoint, earlier.of_stream):
        shutil.rmtree(folder)
    table = directory.replace("directory", "table")
    earlier.site.file.write_text(text.replace(directory, table))
    old_checkpoint(earlier.of_stream, earlier.site.inbox, FILES, [0, 1, 2])
    old_checkpoint(earlier.checkpoint, earlier.site.inbox, FILES, [0, 1])
    earlier.refuses(2, "other messages")
    shutil.rmtree(earlier.checkpoint)
    old_checkpoint(earlier.checkpoint, earlier.site.inbox, [FILES[0] + FILES[1] + FILES[2]], [0])
    assert earlier.take_over(2).streams == {"in": 2}
