"""Files of a folder, opened so that nothing outside of the folder is ever read, and read within a limit."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from twigcast.errors import MessageError, OptionError
from twigcast.limits import Limits

LARGEST = Limits().max_bytes


class Folder:
    """Opens files by their path below a folder, without following links.

    Each folder on the way is opened on its own and from the one above it, so a link that takes the place of a file or
    of a folder between listing and opening is refused, too. With ``follow_links`` a link is resolved first; the path
    that it leads to must be below the folder, and is then opened in the same way.
    """

    def __init__(self, root: str, *, follow_links: bool = False) -> None:
        self.root = root
        self._follow_links = follow_links
        self._parent = ""
        self._handle: int | None = None

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading, or raise a :class:`MessageError`. Opening a pipe does not wait for its writer."""
        try:
            handle = self._open(self._resolved(path))
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                os.close(handle)
                raise OSError(errno.EISDIR, "not a regular file")
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):  # EMLINK: some BSDs
                raise refusal("unreadable", "it is a symbolic link, and links are not followed") from error
            raise refusal("unreadable", error.strerror or str(error)) from error
        return os.fdopen(handle, "rb")

    def close(self) -> None:
        """Close what is open of the folder itself."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _resolved(self, path: str) -> str:
        if not self._follow_links:
            return path
        target = Path(self.root, path).resolve()
        if not target.is_relative_to(self.root):
            raise refusal("unreadable", "it is a symbolic link that leads outside of the folder")
        return str(target.relative_to(self.root))

    def _open(self, path: str) -> int:
        parent, _, name = path.rpartition("/")
        if self._handle is None or parent != self._parent:
            self.close()
            self._handle, self._parent = self._open_parent(parent), parent
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(name, flags, dir_fd=self._handle)

    def _open_parent(self, parent: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        handle = os.open(self.root, flags)
        for part in parent.split("/") if parent else ():
            if part == "..":
                raise OSError(errno.EINVAL, "the path leads out of the folder")
            above = handle
            try:
                handle = os.open(part, flags | os.O_NOFOLLOW, dir_fd=above)
            finally:
                os.close(above)
        return handle


def read_file(file: BinaryIO, max_bytes: int) -> bytes:
    """Return the bytes of an open file, or raise a :class:`MessageError`. One beyond the limit is not read at all."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise refusal("unreadable", "not a regular file")
    if status.st_size > max_bytes:
        text = f"the file has {status.st_size} bytes, the limit is {max_bytes}; it stays in the inbox"
        raise refusal("limit-size", text)
    try:
        content = file.read(max_bytes + 1)
    except OSError as error:
        raise refusal("unreadable", error.strerror or str(error)) from error
    if len(content) > max_bytes:
        raise refusal("limit-size", f"the file has more than {max_bytes} bytes; it stays in the inbox")
    return content


def modified(file: BinaryIO) -> int | None:
    """Return when the content of an open file was last changed, in microseconds since 1970."""
    with suppress(OSError):
        return os.fstat(file.fileno()).st_mtime_ns // 1000
    return None


def unpack(packed: bytes, max_bytes: int) -> bytes:
    """Gunzip, but never beyond the limit: a megabyte may unpack to a gigabyte."""
    try:
        with gzip.GzipFile(fileobj=BytesIO(packed)) as file:
            content = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise refusal("bad-gzip", f"the file does not unpack: {error}") from error
    if len(content) > max_bytes:
        raise refusal("limit-size", f"the message unpacks to more than {max_bytes} bytes")
    return content


def check_inbox(inbox: Path) -> Path:
    """Return the folder, absolute and without links, or raise an :class:`OptionError`."""
    if not inbox.exists():
        raise OptionError("no-inbox", f"there is no folder {inbox}", hint="create it, or check the name")
    if not inbox.is_dir():
        raise OptionError("no-inbox", f"{inbox} is not a folder", hint="give the folder that holds the messages")
    if not os.access(inbox, os.R_OK | os.X_OK):
        raise OptionError("no-inbox", f"the folder {inbox} cannot be read", hint="check its permissions")
    return inbox.resolve()


def refusal(code: str, text: str) -> MessageError:
    """Return an error about a file as a whole."""
    return MessageError(code, text, line=0, column=0, offset=0)
