"""A pipeline that reads folders and tables: links, moved and damaged state, and what becomes of files."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from pipeline_files import Site
from pyspark.sql import SparkSession

from twigcast import config
from twigcast.delivery.dead import DeadLetters
from twigcast.errors import StateDamaged
from twigcast.spark.pipeline import Run


def subscribe(site: Site) -> None:
    with site.store() as store:
        store.add_subscriber("ann")
        store.subscribe("/a", id="all", subscriber="ann")


def set_option(site: Site, text: str) -> None:
    """Add keys to the table of the stream."""
    site.file.write_text(site.file.read_text().replace("max_files =", f"{text}\nmax_files ="))


def reasons(site: Site) -> dict[str, str]:
    letters = DeadLetters(site.settings.state.dead)
    found = {letter.message or "": letter.reason for letter in letters.letters()}
    letters.close()
    return found


def test_links_and_a_moved_folder(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(tmp_path / "site", max_files=2)
    subscribe(site)
    for number in range(3):
        site.put(f"{number}.xml", "<a/>")
    (site.inbox / "passwd.xml").symlink_to("/etc/passwd")
    (site.inbox / "loop").symlink_to(site.inbox)
    (site.inbox / os.fsdecode(b"\xff.xml")).write_bytes(b"<a/>")
    assert Run(site.settings, spark=spark, once=True)().messages == 3
    assert "stream 'in': skipped 2 symbolic links" in caplog.text and reasons(site) == {}
    assert "stream 'in': skipped 1 files whose names are not UTF-8" in caplog.text
    # The whole folder of the pipeline is elsewhere: it goes on there.
    moved = tmp_path / "moved"
    shutil.copytree(tmp_path / "site", moved, symlinks=True)
    shutil.rmtree(tmp_path / "site")
    site.folder, site.inbox, site.file = moved, moved / "in", moved / "pipeline.toml"
    site.file.write_text(site.file.read_text().replace(f"{tmp_path}/site", str(moved)))
    site.put("3.xml", "<a/>")
    assert Run(site.settings, spark=spark, once=True)().messages == 1
    assert site.in_lake() == Counter((f"{n}.xml", "all") for n in range(4))
    # Damage is told before Spark starts.
    for file in ("checkpoints/in/listing.db", "log/in"):
        path = site.settings.state.path / file
        path.rename(tmp_path / "away")
        with pytest.raises(StateDamaged, match=path.name) as caught:
            Run(site.settings, spark=_not_started, once=True)()
        assert caught.value.hint
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.write_bytes(b"")
            with pytest.raises(StateDamaged, match=rf"{path.name} is empty"):
                Run(site.settings, spark=_not_started, once=True)()
        (tmp_path / "away").replace(path)
    assert Run(site.settings, spark=spark, once=True)().messages == 0


class Started(Exception):
    """The state was found in order."""


def _not_started() -> SparkSession:
    raise Started


def test_files_are_cleared_away(spark: SparkSession, tmp_path: Path) -> None:
    """While the pipeline runs, and by the next run where this one was killed in between."""
    site = Site(tmp_path)
    site.file.write_text(site.file.read_text() + "[limits]\nmax_bytes = 1000\n")
    subscribe(site)
    set_option(site, f'after = "move"\nmove_to = "{tmp_path}/done"\nmessages = "lines"')
    (site.inbox / "sub").mkdir()
    site.put("sub/1.xml", "<a/>\n<a/>")
    site.put("broken.xml", "<a>")
    site.put("large.xml", "<a>" + "x" * 2000 + "</a>")
    stop = threading.Event()
    run = Run(site.settings, spark=spark, stop=stop)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for(lambda: not thread.is_alive() or (tmp_path / "done" / "broken.xml").exists())
        site.put("2.xml", "<a/>")
        wait_for(lambda: not thread.is_alive() or (tmp_path / "done" / "2.xml").exists())
    finally:
        stop.set()
        thread.join(60)
    moved = sorted(str(p.relative_to(tmp_path / "done")) for p in (tmp_path / "done").rglob("*.xml"))
    assert moved == ["2.xml", "broken.xml", "sub/1.xml"]
    assert reasons(site)["large.xml#1"] == "limit-size"
    assert [p.name for p in site.inbox.rglob("*.xml")] == ["large.xml"], "its content is nowhere else"
    text = site.file.read_text()
    site.file.write_text(
        text.replace('after = "move"', 'after = "delete"').replace(f'move_to = "{tmp_path}/done"\n', "")
    )
    site.put("3.xml", "<a/>")
    with pytest.MonkeyPatch.context() as patch:  # killed after the commit
        patch.setattr(sys.modules[Run.__module__], "clear", lambda *_: None)
        Run(site.settings, spark=spark, once=True)()
    assert (site.inbox / "3.xml").exists()
    assert Run(site.settings, spark=spark, once=True)().messages == 0
    assert [p.name for p in site.inbox.rglob("*.xml")] == ["large.xml"]
    # A name that was given back is a new message; a redriven one is deleted, too.
    site.put("3.xml", "<a/>")
    redrive = site.settings.state.path / "redrive" / "in"
    redrive.mkdir(parents=True)
    (redrive / "dead-1.xml").write_text("<a/>")
    assert Run(site.settings, spark=spark, once=True)().messages == 2
    assert not list(redrive.iterdir()) and not (site.inbox / "3.xml").exists()
    assert site.in_lake()["dead-1.xml", "all"] == 1


def wait_for(holds: object, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def table_site(folder: Path, spark: SparkSession) -> Site:
    site = Site(folder, '[archive]\npath = "archive"\n')
    subscribe(site)
    text = site.file.read_text().replace('source = "directory"', 'source = "table"')
    site.file.write_text(text.replace("max_files", 'id_column = "id"\nmax_files'))
    add_row(site, spark, "1")
    return site


def add_row(site: Site, spark: SparkSession, id: str) -> None:
    frame = spark.createDataFrame([(id, "<a/>")], "id string, xml string").coalesce(1)
    frame.write.mode("append").parquet(f"file://{site.inbox}")


def test_another_default_file_system_and_damage_to_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    site = table_site(tmp_path / "si te", spark)  # Spark must take a space for what it is
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    try:
        assert Run(site.settings, spark=spark, once=True)().messages == 1
        add_row(site, spark, "2")
        assert Run(site.settings, spark=spark, once=True)().messages == 1
    finally:
        hadoop.set("fs.defaultFS", before)
    assert site.in_lake() == Counter([("1", "all"), ("2", "all")])
    checkpoint = site.settings.state.checkpoints / "in"
    for file in ("offsets/0", "offsets/1", "commits/1", "metadata", "sources/0/1"):
        path = checkpoint / file
        whole = path.read_bytes()
        for cut in (True, False):
            path.write_bytes(b"") if cut else path.unlink()
            # A commit that is missing is what a kill leaves; Spark repeats the micro-batch, and the log has it.
            expected = Started if (file, cut) == ("commits/1", False) else StateDamaged
            with pytest.raises(expected) as caught:
                Run(site.settings, spark=_not_started, once=True)()
            if isinstance(caught.value, StateDamaged):
                assert str(path) in caught.value.text and caught.value.hint
        path.write_bytes(whole)
    # Spark would read a table again that was moved.
    site.inbox.rename(site.folder / "other")
    site.file.write_text(site.file.read_text().replace(f'path = "{site.inbox}"', f'path = "{site.folder}/other"'))
    with pytest.raises(StateDamaged, match="is about a table elsewhere"):
        Run(site.settings, spark=_not_started, once=True)()


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    site = Site(tmp_path)
    set_option(site, f'after = "move"\nmove_to = "{site.inbox}/done"')
    with pytest.raises(config.ConfigError, match="lies in the folder that the stream 'in' reads"):
        _ = site.settings
    for text, words in (
        ('after = "move"', "move_to: is missing"),
        ('move_to = "done"', "goes with after"),
        ('after = "delete"\nfollow_links = true', "goes with after"),
        ('max_ahead = "soon"', "max_ahead"),
    ):
        other = Site(tmp_path / str(abs(hash(text))))
        set_option(other, text)
        with pytest.raises(config.ConfigError, match=words):
            _ = other.settings
