"""The state of correlations: sources that are cleared away, and a checkpoint that is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_files import Site
from pyspark.sql import SparkSession
from test_correlate_pipeline import put, site_of, wanted

from twigcast.errors import StateDamaged
from twigcast.spark.pipeline import Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("java")]


def clearing(site: Site, after: str) -> None:
    """Let the files of the stream be moved or deleted once they are read."""
    text = site.file.read_text()
    more = f'after = "move"\nmove_to = "{site.folder}/done"' if after == "move" else f'after = "{after}"'
    site.file.write_text(text.replace("max_files =", f"{more}\nmax_files ="))


@pytest.fixture(scope="module")
def read_site(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A pipeline that has read the messages 0 to 3 in two runs, and moved them away."""
    site = site_of(tmp_path_factory.mktemp("read") / "site")
    clearing(site, "move")
    for numbers in ((0, 1), (2, 3)):
        for number in numbers:
            put(site, number, number % 2)
        Run(site.settings, spark=spark, once=True)()
    return site


def test_files_are_moved_whatever_correlations_have_read(spark: SparkSession, read_site: Site, tmp_path: Path) -> None:
    assert read_site.in_lake() == wanted({number: number % 2 for number in range(4)})
    assert not list(read_site.inbox.iterdir())
    assert sorted(path.name for path in (read_site.folder / "done").iterdir()) == [f"{n:03d}.xml" for n in range(4)]
    # A file of a name that was given back is a new message, to correlations too.
    site = copy_of(read_site, tmp_path / "copy")
    site.file.write_text(site.file.read_text().replace('after = "move"', 'after = "delete"').replace("move_to", "#"))
    site.put("000.xml", '<a t="1700000010"><k>7</k></a>')
    put(site, 11, 7)
    Run(site.settings, spark=spark, once=True)()
    new = site.in_lake() - read_site.in_lake()
    assert new["pairs(000.xml,011.xml)", "pairs"] == 1 and new.total() == 3
    assert not list(site.inbox.iterdir())


def copy_of(site: Site, folder: Path) -> Site:
    """Copy the whole folder of a pipeline elsewhere."""
    shutil.copytree(site.folder, folder)
    copy = Site.__new__(Site)
    copy.folder, copy.inbox, copy.file = folder, folder / "in", folder / "pipeline.toml"
    copy.file.write_text(copy.file.read_text().replace(str(site.folder), str(folder)))
    return copy


def files_of_state(site: Site) -> Iterator[str]:
    """Yield the files that correlations have to remember things in, relative to the state folder."""
    checkpoint = site.settings.state.checkpoints / "correlations"
    last = max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    for name in ("beginning.json", "metadata", f"offsets/{last}", f"commits/{last}"):
        yield f"checkpoints/correlations/{name}"
    yield "correlations.json"
    yield "log/in/correlated.json"
    yield f"log/correlations/batch-{last:08d}.json"


def test_damage(spark: SparkSession, read_site: Site, tmp_path: Path) -> None:
    """Each file is deleted, and cut off: the run goes on with nothing lost or doubled, or refuses and names a file."""
    after = wanted(dict(enumerate((0, 1, 0, 1, 0))))
    refused = set()
    for name in files_of_state(read_site):
        for kind in ("missing", "empty"):
            place = tmp_path / f"{name.replace('/', '-')}-{kind}"
            site = copy_of(read_site, place)
            file = site.settings.state.path / name
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            if kind == "missing":
                file.unlink()
            else:
                file.write_bytes(b"")
            put(site, 4, 0)
            try:
                Run(site.settings, spark=spark, once=True)()
            except StateDamaged as error:
                assert str(place) in error.text and error.hint, (name, kind, error.text)
                refused.add((file.name if not file.name.isdigit() else file.parent.name, kind))
            else:
                assert site.in_lake() == after, (name, kind)
    every = {
        ("beginning.json", "missing"),
        ("metadata", "missing"),
        ("offsets", "missing"),
        ("correlated.json", "empty"),
    }
    assert every <= refused and ("correlations.json", "empty") in refused
    # What was seen in the last micro-batch is still there, so it can be repeated.
    assert not {("commits", "missing"), ("correlations.json", "missing")} & refused


def test_what_was_seen_is_damaged(spark: SparkSession, read_site: Site, tmp_path: Path) -> None:
    """A part that the query has to read again: the run names the file, and does not say that a restart helps."""
    site = copy_of(read_site, tmp_path / "damaged")
    checkpoint = site.settings.state.checkpoints / "correlations"
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    for part in (site.settings.state.log / "in").glob("batch-*/*.seen.parquet"):
        content = bytearray(part.read_bytes())
        content[4 : len(content) // 2] = b"?" * (len(content) // 2 - 4)
        part.write_bytes(content)
    with pytest.raises(StateDamaged, match=r"seen\.parquet is damaged") as raised:
        Run(site.settings, spark=spark, once=True)()
    assert raised.value.hint == StateDamaged.REMEDY
