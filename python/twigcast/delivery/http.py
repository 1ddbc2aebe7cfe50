"""One signed HTTP POST, to an address that was checked, within a time that holds for all of it.

http.client rather than a library with pools and redirects: the address must be pinned, a redirect must not be
followed, and the socket must be at hand to cut a call off whose server dribbles.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

from twigcast.delivery.addresses import Network, resolve
from twigcast.store.targets import check_secret

_READ = 1 << 16
"""Bytes of an answer that are read, so that the connection can be used again; a longer one is cut off."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    retry_after: float | None
    """Seconds from now, where the server says so."""


class Call:
    """A connection to one origin. ``cut`` may be called by another thread."""

    def __init__(self, url: str, allow: Sequence[Network], timeout: float) -> None:
        self.origin = origin(url)
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._allow = allow
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None
        self._cut = False

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Make the call. Raises OSError, http.client.HTTPException or ForbiddenAddress."""
        fresh = self._connection is None
        try:
            return self._post(url, headers, body)
        except (OSError, http.client.HTTPException) as error:
            if self._cut:
                raise TimeoutError(f"no answer within {self._timeout:g} s") from error
            # A server may close a connection that it has kept; that says nothing about this call.
            if fresh or not isinstance(error, (ConnectionError, http.client.BadStatusLine)):
                raise
            return self._post(url, headers, body)

    def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            connection = self._connection or self._connect()
            parts = urlsplit(url)
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", quote(path, safe="%/:=&?~#+!$,;'@()*[]"), body, dict(headers))
            response = connection.getresponse()
            answer = Answer(response.status, _retry_after(response.getheader("Retry-After")))
            if len(response.read(_READ)) == _READ or response.will_close:
                self.close()
            return answer
        except BaseException:
            self.close()
            raise

    def _connect(self) -> http.client.HTTPConnection:
        address = resolve(self._host, self._port, self._allow)
        connection = _Pinned(self._host, self._port, address, self._secure, self._timeout)
        self._connection = connection
        connection.connect()
        return connection

    def cut(self) -> None:
        """End the call that is under way, from another thread: its time is over."""
        self._cut = True
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def origin(url: str) -> tuple[str, str]:
    """Return the scheme and the host of a URL: what a connection is to."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


class _Pinned(http.client.HTTPConnection):
    """Connects to an address, speaks to a host."""

    def __init__(self, host: str, port: int, address: str, secure: bool, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        if secure:
            self.default_port = 443  # so that the Host header names a port only where it must
        self._address = address
        self._secure = secure

    def connect(self) -> None:
        self.sock: Any = socket.create_connection((self._address, self.port), self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._secure:
            self.sock = _tls().wrap_socket(self.sock, server_hostname=self.host)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def signed(id: str, body: bytes, secret: str | None, now: float | None = None) -> dict[str, str]:
    """Headers of Standard Webhooks. Several secrets, with spaces between, make several signatures (to change keys)."""
    stamp = str(int(time.time() if now is None else now))
    headers = {"webhook-id": id, "webhook-timestamp": stamp}
    if secret:
        text = f"{id}.{stamp}.".encode() + body
        signatures = (hmac.new(check_secret(each), text, hashlib.sha256).digest() for each in secret.split())
        headers["webhook-signature"] = " ".join(f"v1,{base64.b64encode(each).decode()}" for each in signatures)
    return headers


def header_value(text: str) -> str:
    """Any text as the value of a header: what is not printable ASCII is percent-encoded."""
    return quote(text, safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}~")


def _retry_after(value: str | None) -> float | None:
    if value is None:
        return None
    value = value.strip()
    if value.isdecimal():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
