"""Messages named on the command line: files, folders, stdin."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from twigcast.chunk.source import SourceError, unpacked

# A batch is handed on at either bound: enough rows to keep Python out of the way, little enough to see progress.
BATCH_MESSAGES = 1024
BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Unreadable:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    data: bytes


class Listed(str):
    """The name of a file that was found in a folder: should it be a link by the time it is opened, it is refused."""


def expand(arguments: Iterable[str]) -> Iterator[str | Unreadable]:
    """Yield names of messages in the order given; a folder stands for its files and those of the folders below it.

    In a folder, hidden files and folders (``.name``) and what is not a regular file are passed over. Symbolic links,
    which could lead anywhere, are skipped and counted in a warning. What is named on the command line is taken
    whatever it is.
    """
    for argument in arguments:
        if argument != "-" and Path(argument).is_dir():
            yield from _walk(argument)
        else:
            yield argument


def _walk(top: str) -> Iterator[str | Unreadable]:
    todo: list[tuple[str, bool]] = [(top, True)]
    links = 0
    while todo:
        name, is_folder = todo.pop()
        if not is_folder:
            yield Listed(name)
            continue
        try:
            with os.scandir(name) as entries:
                found = sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)
        except OSError as error:
            yield Unreadable(name, error.strerror or str(error))
            continue
        links += sum(e.is_symlink() for e in found)
        kinds = ((e, e.is_dir(follow_symlinks=False)) for e in reversed(found))
        todo += [(e.path, folder) for e, folder in kinds if folder or e.is_file(follow_symlinks=False)]
    if links:
        text = (
            f"warning: {printable(top)}: skipped {links:,} symbolic links; name them on the command line to read them"
        )
        print(text, file=sys.stderr)


def read(names: Iterable[str | Unreadable]) -> Iterator[Message | Unreadable]:
    """Yield the content of each file, or why it cannot be read."""
    for name in names:
        if isinstance(name, Unreadable):
            yield name
            continue
        try:
            data = sys.stdin.buffer.read() if name == "-" else _content(name)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            yield Unreadable(name, getattr(error, "strerror", None) or str(error))
        else:
            yield Message(name, data)


def _content(name: str) -> bytes:
    if not isinstance(name, Listed):
        return Path(name).read_bytes()
    with open(name, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW)) as file:
        return file.read()


def readable(messages: Iterable[Message | Unreadable], refuse: Callable[[Unreadable], None]) -> Iterator[Message]:
    """Yield the messages that could be read; call ``refuse`` for each of the others when it is its turn."""
    for message in messages:
        if isinstance(message, Unreadable):
            refuse(message)
        else:
            yield message


def refuse_stdin_twice(*names: str | None) -> None:
    """Raise an error if more than one of the names is ``-``."""
    if names.count("-") > 1:
        raise click.UsageError("stdin (-) can be read once only")


def batches(messages: Iterable[Message | Unreadable], refuse: Callable[[Unreadable], None]) -> Iterator[list[Message]]:
    """Do as ``readable`` does, several messages at a time."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        if isinstance(message, Message):
            batch.append(message)
            size += len(message.data)
            if len(batch) < BATCH_MESSAGES and size < BATCH_BYTES:
                continue
        if batch:
            yield batch
            batch, size = [], 0
        if isinstance(message, Unreadable):
            refuse(message)
    if batch:
        yield batch


def as_json(value: object) -> str:
    """JSON in plain characters, but for names that are not UTF-8 on disk: those need escapes to be JSON at all."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def printable(name: str) -> str:
    return name.encode(errors="backslashreplace").decode()


def decompressed(messages: Iterable[Message | Unreadable], most: int) -> Iterator[Message | Unreadable]:
    """Compressed messages (gzip, Zstandard) as what they are; of more bytes than ``most``, enough to see that."""
    for message in messages:
        if isinstance(message, Message):
            try:
                yield Message(message.name, unpacked(message.data, most))
            except SourceError as error:
                yield Unreadable(message.name, error.text)
        else:
            yield message
