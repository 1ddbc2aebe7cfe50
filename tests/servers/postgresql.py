"""A real PostgreSQL server for tests: its own data folder, a free port on loopback, gone afterwards.

Import the fixtures in a ``conftest.py``: ``from servers.postgresql import postgresql_server, postgresql_url``. Where
the server's programs are not installed, the tests are skipped with the reason; `make test` installs them if it may.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

USER, PASSWORD = "twigcast", "s3cret-of-the-tests"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Server:
    port: int

    def url(self, database: str, *, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def empty(self) -> str:
        """The URL of an empty schema, which for a client is like an empty database and takes no time to make."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.url('postgres')}?options=-csearch_path%3D{name}"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="needs the package psycopg")
    programs = _programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's server programs (apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="twigcast-postgresql-"))
    process = None
    try:
        other_user = _other_user(folder)
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        data = str(folder / "data")
        initdb = [programs / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C"]
        made = subprocess.run(
            [*initdb, "--no-sync", f"--pwfile={folder / 'password'}"],
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
            **other_user,
        )
        assert made.returncode == 0, made.stderr
        port = _free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": folder,
            "fsync": "off",
            "shared_buffers": "32MB",
        }
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [programs / "postgres", "-D", data, *arguments], stdout=log, stderr=log, cwd=folder, **other_user
            )
        server = Server(port)
        _wait(server, process, folder / "log")
        yield server
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql_url(postgresql_server: Server) -> str:
    return postgresql_server.empty()


def _programs() -> Path | None:
    """Debian keeps them out of the PATH, one folder per version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parent.parent.name))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _other_user(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    known = {user.pw_name for user in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in known else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            server.execute("SELECT 1")
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError(f"PostgreSQL did not start: {log.read_text()}")
