"""Starting Spark: what is checked before, and what is left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from twigcast.engine import Subscription
from twigcast.errors import OptionError
from twigcast.spark import archive, chunk
from twigcast.spark.java import Java, find_java
from twigcast.spark.session import SETTINGS, session
from twigcast.spark.stages.messages import _problem, check_workers


def fake_java(home: Path, version: str, *, release: bool) -> None:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25.0.1", 25)])
def test_java_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int, release: bool
) -> None:
    fake_java(tmp_path, version, release=release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java().major == major


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    fake_java(tmp_path, version, release=True)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(OptionError, match="17 or newer") as caught:
        find_java()
    assert caught.value.code == "java-too-old" and "install" in str(caught.value)


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match="no java on the PATH") as caught:
        find_java()
    assert caught.value.code == "java-missing" and caught.value.hint
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OptionError, match="JAVA_HOME is"):
        find_java()


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(OptionError, match="PySpark") as caught:
        session()
    assert caught.value.code == "pyspark-missing" and "pip install" in str(caught.value)


def test_no_cores() -> None:
    with pytest.raises(OptionError, match="cores is 0"):
        session(cores=0)


def test_archive_is_made_once_and_adopted_when_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    java, home = Java(Path("/usr/bin/java"), "17"), tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    cache = tmp_path / "cache"
    cache.mkdir()

    (making,) = archive.archive_options(java, home, cache)
    (meanwhile,) = archive.archive_options(java, home, cache)
    assert making.startswith("-XX:ArchiveClassesAtExit=") and making != meanwhile
    first, second = (Path(option.partition("=")[2]) for option in (making, meanwhile))

    first.write_bytes(b"\x01\x02\x03\x04 classes")
    assert archive.archive_options(java, home, cache)[0].startswith("-XX:ArchiveClassesAtExit=")  # may be growing yet
    second.write_bytes(b"\0\0\0\0 cut short")
    for path in (first, second):
        os.utime(path, (1e9, 1e9))
    using = archive.archive_options(java, home, cache)
    assert using[0].startswith("-XX:SharedArchiveFile=")
    assert [path.name for path in cache.iterdir()] == [Path(using[0].partition("=")[2]).name]
    assert archive.archive_options(java, home, cache) == using


def test_no_archive_where_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(Path("/usr/bin/java"), "17")
    assert archive.archive_options(java, tmp_path, None) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert archive.cache_folder() is None
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert archive.archive_options(java, tmp_path, tmp_path) == []


def test_the_session_is_ours_and_the_environment_as_before(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext
    for key, value in SETTINGS.items():
        assert spark.sparkContext.getConf().get(key) == value
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert "TieredStopAtLevel" not in os.environ.get("SPARK_LAUNCHER_OPTS", "")


class Context:
    """What is asked of a session's context."""

    def __init__(self, python: str, master: str = "local[2]") -> None:
        self.pythonExec, self.master = python, master


def test_workers_of_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(python: str | Path, master: str = "local[2]") -> None:
        check_workers(Context(str(python), master))  # type: ignore[arg-type]

    check(sys.executable)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    check(Path(sys.executable).name)
    other = tmp_path / "python3"
    for answer, words in (("3.9 0", "no twigcast"), ("3.9 1", "is Python 3.9; the driver"), ("oops", "does not start")):
        other.write_text(f"#!/bin/sh\necho {answer}\n")
        other.chmod(0o755)
        with pytest.raises(OptionError, match=words) as caught:
            check(other)
        assert caught.value.code == "worker-python"
        assert str(other) in caught.value.text and "\n" not in caught.value.text
        assert f"PYSPARK_PYTHON={sys.executable}" in str(caught.value)
        _problem.cache_clear()
    with pytest.raises(OptionError, match="does not exist"):
        check(tmp_path / "absent")
    other_session = SimpleNamespace(sparkContext=Context(str(tmp_path / "absent")))
    with pytest.raises(OptionError, match="does not exist"):
        chunk.match(other_session, ["large.xml"], [Subscription("a", "/a")])  # type: ignore[arg-type]
    check(tmp_path / "absent", "spark://host:7077")  # a path of other machines
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    other.write_text(f"#!/bin/sh\necho {own} 1\n")
    check(other)  # another environment that has Twigcast
