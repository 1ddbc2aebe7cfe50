"""The driver's side of shared files: a small server that hands them to machines which do not see the driver's disk.

Only on a cluster; in local mode nothing listens. A request needs the token that tasks carry, and gets only files that
have been shared and not been withdrawn. Spark's own `addFile` does not serve: a file that was added can never be taken
back, and every new executor fails as soon as one of them has been deleted.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import shutil
import threading
import uuid
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from twigcast.errors import OptionError
from twigcast.spark.stages.shared import BLOCK, SharedFile, is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

PORT = "spark.twigcast.files.port"
"""The setting of Spark for the port of the server; any free one by default."""


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileServer:
    """Serves shared files over HTTP until the process ends."""

    def __init__(self, host: str, bind: str, port: int = 0) -> None:
        self._token = secrets.token_urlsafe(32)
        self._files: dict[str, Path] = {}
        files, token = self._files, self._token

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60.0

            def do_GET(self) -> None:
                given = self.headers.get("Authorization", "")
                if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                    self.send_error(HTTPStatus.FORBIDDEN)
                    return
                path = files.get(self.path.removeprefix("/"))
                try:
                    opened = path.open("rb") if path is not None else None
                except OSError:
                    opened = None
                if opened is None:
                    self.send_error(HTTPStatus.NOT_FOUND, "no such file, or it has been replaced")
                    return
                with opened as file:
                    self.send_response(HTTPStatus.OK)
                    self.send_header("Content-Type", "application/octet-stream")
                    self.send_header("Content-Length", str(file.seek(0, 2)))
                    self.end_headers()
                    file.seek(0)
                    with suppress(ConnectionError, TimeoutError):
                        shutil.copyfileobj(file, self.wfile, BLOCK)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                pass  # a worker that was killed in the middle

        try:
            self._server = Server((bind, port), Handler)
        except OSError as error:
            raise OptionError(
                "files-port", f"cannot listen on {bind}:{port}: {error.strerror or error}", hint=f"set {PORT}"
            ) from error
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="twigcast-files", daemon=True).start()

    def share(self, path: Path) -> SharedFile:
        """Serve a file, whose content must not change any more."""
        name = uuid.uuid4().hex
        checksum = checksum_of(path)
        self._files[name] = path
        return SharedFile(str(path), checksum, f"{self._address}/{name}", self._token)

    def withdraw(self, file: SharedFile) -> None:
        """Serve a file no longer."""
        self._files.pop(file.url.rpartition("/")[2], None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Files:
    """Shares files with the workers of one session."""

    def __init__(self, server: FileServer | None = None) -> None:
        self._server = server

    def share(self, path: Path) -> SharedFile:
        """Return the file as tasks name it."""
        return SharedFile(str(path)) if self._server is None else self._server.share(path)

    def delete(self, file: SharedFile) -> None:
        """Delete a file that no task will ask for again."""
        if self._server is not None:
            self._server.withdraw(file)
        with suppress(OSError):
            Path(file.path).unlink()


LOCAL = Files()
"""For workers on the driver's machine."""
_servers: dict[tuple[str, str, int], FileServer] = {}
_starting = threading.Lock()


def files_of(context: SparkContext) -> Files:
    """Return what shares files with the workers of a session; a cluster has a server, started at the first call."""
    if is_local(context):
        return LOCAL
    conf = context.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    bind = conf.get("spark.driver.bindAddress") or host
    key = host, bind, _port(conf.get(PORT))
    with _starting:
        if key not in _servers:
            _servers[key] = FileServer(*key)
        return Files(_servers[key])


def _port(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isdigit() or int(text) > 65535:
        raise OptionError(
            "files-port", f"{PORT} is {text!r}", hint="give a port from 1 to 65535, or 0 for any free one"
        )
    return int(text)
