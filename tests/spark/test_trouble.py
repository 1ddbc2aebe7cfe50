"""What can go wrong around a pipeline: each has a clear message, and nothing is lost."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pipeline_files import Site
from pyspark.sql import SparkSession

from twigcast.cli.replay import replay as replay_command
from twigcast.cli.run import run as run_command
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.outbox import Outbox
from twigcast.errors import TwigcastError
from twigcast.spark.pipeline import Run


def run_once(site: Site, spark: SparkSession) -> Run:
    with site.store() as store:
        if not store.subscribers():
            store.add_subscriber("ann")
            store.subscribe("/a", id="all", subscriber="ann")
    run = Run(site.settings, spark=spark, once=True, patience=2)
    run()
    return run


def test_a_sink_that_cannot_be_written_holds_nobody_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    site.put("1.xml", "<a/>")
    blocked = tmp_path / "files"
    blocked.write_text("in the way")
    assert run_once(site, spark).undelivered == {"files": 1}
    assert site.in_lake() == Counter([("1.xml", "all")])
    outbox = Outbox(site.settings.state.outbox)
    failing = outbox.health("files")
    outbox.close()
    assert failing is not None and "Not a directory" in failing[2]
    # The command does not end as if all were well.
    module = sys.modules[Run.__module__]  # by its name one gets the function of the same name
    monkeypatch.setattr(module, "Run", functools.partial(Run, patience=1))
    monkeypatch.setattr(module, "pipeline_session", lambda *_, **__: spark)
    with pytest.raises(TwigcastError, match="1 deliveries wait: files 1") as raised:
        CliRunner().invoke(run_command, [str(site.file), "--once"], catch_exceptions=False)
    assert f"twigcast status {site.file}" in str(raised.value)
    blocked.unlink()
    assert run_once(site, spark).drained
    assert site.in_lake() == Counter([("1.xml", "all")]) and len(site.in_files()) == 1


def test_a_replay_does_not_end_as_if_all_were_well(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, '[archive]\npath = "archive"\n')
    site.put("1.xml", "<a/>")
    run_once(site, spark)
    with site.store() as store:
        store.subscribe("//a", id="late", subscriber="ann")
    (tmp_path / "files").rename(tmp_path / "moved")
    blocked = tmp_path / "files"
    blocked.write_text("in the way")
    module = importlib.import_module("twigcast.spark.replay")
    monkeypatch.setattr(module, "replay", functools.partial(module.replay, patience=1))
    arguments = [str(site.file), "--since", "1h", "--subscription", "late"]
    with pytest.raises(TwigcastError, match="1 deliveries wait: files 1"):
        CliRunner().invoke(replay_command, arguments, catch_exceptions=False)
    assert site.in_lake()["1.xml", "late"] == 1
    blocked.unlink()
    assert run_once(site, spark).drained
    assert [path.name.split(".")[0] for path in site.in_files()] == ["late"]


def test_a_message_of_a_gigabyte_is_refused_unread(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path)
    with (site.inbox / "huge.xml").open("wb") as file:
        file.truncate(1 << 30)
    site.put("1.xml", "<a/>")
    run = run_once(site, spark)
    assert (run.total.messages, run.total.rejects, run.total.deliveries) == (2, 1, 1)
    letters = DeadLetters(site.settings.state.dead)
    (letter,) = letters.letters()
    assert letter.reason == "limit-size" and "1073741824" in (letter.text or "")
    letters.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk(spark: SparkSession, tmp_path: Path, small_disk: Path) -> None:
    site = Site(tmp_path / "site", max_files=4)
    text = site.file.read_text().replace(f"{site.folder}/state", f"{small_disk}/state")
    site.file.write_text(text)
    for number in range(16):  # not to be compressed, and more than the disk takes at once
        site.put(f"{number:02}.xml", b"<a>" + os.urandom(200_000).hex().encode() + b"</a>")
    (small_disk / "filler").write_bytes(b"x" * 2_600_000)
    with pytest.raises(TwigcastError) as caught:
        run_once(site, spark)
    assert "No space left" in str(caught.value) or "full" in str(caught.value)
    (small_disk / "filler").unlink()
    subprocess.run(["mount", "-o", "remount,size=100m", small_disk], check=True)
    run_once(site, spark)
    assert site.in_lake() == Counter((f"{number:02}.xml", "all") for number in range(16))
    assert len(site.in_files()) == 16
