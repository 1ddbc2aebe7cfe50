"""A webhook server on loopback that behaves as badly as it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Request"], "int | str | tuple[int, dict[str, str]]"]
"""A status (perhaps with headers), or what else to do: ``hang``, ``reset``, ``dribble``."""


@dataclass
class Request:
    number: int
    path: str
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass
class Hooks:
    url: str = ""
    behaviour: Behaviour = lambda request: 204
    requests: list[Request] = field(default_factory=list)
    accepted: list[Request] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    end: threading.Event = field(default_factory=threading.Event)

    @property
    def ids(self) -> list[str]:
        """The ids of accepted deliveries, each once: as a receiver that knows what it has seen."""
        return sorted({request.headers["webhook-id"] for request in self.accepted})


@contextmanager
def serving(behaviour: Behaviour | None = None) -> Iterator[Hooks]:
    hooks = Hooks()
    if behaviour is not None:
        hooks.behaviour = behaviour

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with hooks.lock:
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(len(hooks.requests), self.path, headers, body, time.time())
                hooks.requests.append(request)
                hooks.busy += 1
                hooks.busiest = max(hooks.busiest, hooks.busy)
            try:
                self.answer(request, hooks.behaviour(request))
            finally:
                with hooks.lock:
                    hooks.busy -= 1

        def answer(self, request: Request, what: Any) -> None:
            if what == "hang":
                hooks.end.wait(30)
            elif what == "dribble":
                while not hooks.end.wait(0.05):
                    self.wfile.write(b"H")
            elif what == "reset":
                self.close_connection = True
                self.connection.close()
            else:
                status, headers = what if isinstance(what, tuple) else (what, {})
                if 200 <= status < 300:
                    with hooks.lock:
                        hooks.accepted.append(request)
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100

        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    hooks.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hooks
    finally:
        hooks.end.set()
        server.shutdown()
        server.server_close()
