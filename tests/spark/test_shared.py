"""Files that the driver shares with workers on other machines; no Spark needed but for the last test."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_crash import PACKAGE

from twigcast.errors import OptionError, TwigcastError
from twigcast.spark.serve import LOCAL, Files, FileServer
from twigcast.spark.stages import shared
from twigcast.spark.stages.shared import SharedFile, is_here, local_path, open_shared


@pytest.fixture
def server() -> Iterator[FileServer]:
    made = FileServer("127.0.0.1", "127.0.0.1")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an executor."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'executor'},/nowhere")
    monkeypatch.setattr(shared, "PATIENCE", 1.0)
    return tmp_path / "executor" / "twigcast"


def unseen(file: SharedFile) -> SharedFile:
    """The file as a machine sees it that does not have the driver's disk."""
    return file._replace(path=f"/nowhere{file.path}")


def content(path: str) -> bytes:
    return Path(path).read_bytes()


def copies(executor: Path) -> list[str]:
    return sorted(path.name for path in executor.iterdir() if not path.name.startswith("."))


def test_a_file_that_is_here_is_opened_where_it_lies(server: FileServer, tmp_path: Path, executor: Path) -> None:
    path = tmp_path / "base"
    path.write_bytes(b"a base")
    for file in (LOCAL.share(path), server.share(path)):
        assert local_path(file) == str(path) and open_shared(file, content) == b"a base" and is_here(file)
    assert not executor.exists()
    assert SharedFile.from_text(server.share(path).to_text()).path == str(path)


def test_a_file_is_fetched_once_and_checked(server: FileServer, tmp_path: Path, executor: Path) -> None:
    path = tmp_path / "base"
    path.write_bytes(os.urandom(3 << 20))
    file = unseen(server.share(path))
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert len(set(pool.map(local_path, [file] * 8))) == 1
    assert copies(executor) == [file.checksum] and open_shared(file, content) == path.read_bytes()
    assert oct(executor.stat().st_mode)[-3:] == "700"
    (executor / file.checksum).unlink()  # by another worker's clean-up
    assert not is_here(file)
    assert open_shared(file, content) == path.read_bytes()
    (executor / file.checksum).unlink()
    path.write_bytes(b"something else")
    with pytest.raises(TwigcastError, match="another checksum"):
        local_path(file)
    assert copies(executor) == []


def test_a_file_that_the_driver_has_no_more(server: FileServer, tmp_path: Path) -> None:
    files = Files(server)
    path = tmp_path / "base"
    path.write_bytes(b"a base")
    file = files.share(path)
    files.delete(file)
    assert not path.exists()
    with pytest.raises(TwigcastError, match="cannot get base: the driver answers 404") as caught:
        open_shared(file, content)
    assert caught.value.code == "file-missing" and "spark.driver.host" in str(caught.value)
    with pytest.raises(TwigcastError, match="not on this machine"):
        open_shared(SharedFile(str(path)), content)


def test_a_driver_that_does_not_answer_at_once(server: FileServer, tmp_path: Path) -> None:
    path = tmp_path / "base"
    path.write_bytes(b"a base")
    file = unseen(server.share(path))
    port = int(file.url.split(":")[2].split("/")[0])
    server.close()
    with pytest.raises(TwigcastError, match="refused"):
        local_path(file)
    again: list[FileServer] = []

    def come_back() -> None:
        made = FileServer("127.0.0.1", "127.0.0.1", port)
        made._files.update(server._files)
        again.append(made)

    timer = threading.Timer(0.3, come_back)
    timer.start()
    try:
        with pytest.raises(TwigcastError, match="403"):  # another process took the port: it knows no such token
            local_path(file)
    finally:
        timer.join()
        again[0].close()


def test_only_tasks_get_files(server: FileServer, tmp_path: Path) -> None:
    path = tmp_path / "base"
    path.write_bytes(b"a base")
    file = server.share(path)
    for url, headers in (
        (file.url, {}),
        (file.url, {"Authorization": "Bearer other"}),
        (file.url.rpartition("/")[0] + "/../../etc/passwd", {"Authorization": f"Bearer {file.token}"}),
        (file.url.rpartition("/")[0] + str(path), {"Authorization": f"Bearer {file.token}"}),
    ):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10)
        assert caught.value.code in (403, 404)
        caught.value.close()


def test_copies_are_bounded(
    server: FileServer, tmp_path: Path, executor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MAX_BYTES", 250)
    files = []
    for number in range(5):
        path = tmp_path / f"delta-{number}"
        path.write_bytes(bytes([number]) * 100)
        files.append(unseen(server.share(path)))
        local_path(files[-1])
        os.utime(executor / files[-1].checksum, (1e9 + number,) * 2)
        monkeypatch.setattr(shared, "UNUSED_SECONDS", 1e12)
    assert copies(executor) == sorted(file.checksum for file in files[-2:])
    shared.keep(files[-1])
    monkeypatch.setattr(shared, "UNUSED_SECONDS", 60.0)
    shared.clean()
    assert copies(executor) == [files[-1].checksum]


def test_a_port_that_is_taken(server: FileServer) -> None:
    port = server._server.server_address[1]
    with pytest.raises(OptionError, match=f"cannot listen on 127.0.0.1:{port}") as caught:
        FileServer("127.0.0.1", "127.0.0.1", port)
    assert "spark.twigcast.files.port" in str(caught.value)


CLUSTER = Path(__file__).with_name("cluster_changes.py")


@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_a_cluster_over_changes_and_a_new_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of its own, since a process has one: see cluster_changes.py."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    path = os.pathsep.join([str(PACKAGE), str(CLUSTER.parent)])
    command = [sys.executable, str(CLUSTER), str(tmp_path)]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=400, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert len(seen["bases"]) >= 3, "rebased twice"
    assert seen["left"] < 2 * 40, "files of earlier versions have been deleted"
    assert seen["executors"] == 2
    assert seen["found"] == seen["expected"]
    assert seen["visible"] == []
