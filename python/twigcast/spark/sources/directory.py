"""A folder as a stream of messages: one file is one message, whose id is the path relative to the folder.

Spark's file source finds the files and remembers which it has handed out; the worker that matches a file also reads it.
The bytes thus take no detour through the JVM, and a file that is too large, unreadable or gone by then is one refused
message instead of a failed batch.

A file must appear whole: write it under a name that starts with ``.`` or ``_`` or ends in ``.tmp``, or outside of the
folder on the same disk, and rename it into place. A name stands for one message: content changed later is not read.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from twigcast.errors import MessageError, OptionError
from twigcast.limits import Limits
from twigcast.spark.stages.outcome import ERROR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGEST = Limits().max_bytes
MESSAGES_AT_ONCE = 1024
BYTES_AT_ONCE = 16 << 20

# As _complete below. Spark itself passes over names with a dot or (mostly) an underscore in front.
_COMPLETE = r"path not like '%.tmp' and path not rlike '/[._][^/]*$'"

MESSAGES = pa.schema([("id", pa.string()), ("xml", pa.binary()), ("error", ERROR)])


def listing(
    spark: SparkSession, inbox: Path, *, glob: str | None = None, max_files: int | None = None, clean: bool = False
) -> DataFrame:
    """The files of a folder and below as a stream of (path, length), ``max_files`` of them per micro-batch.

    With ``clean`` files are deleted once they are done.
    """
    reader = (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length long, content binary")
        .option("recursiveFileLookup", "true")
        # By default a file a week older than the newest one is passed over in silence, however new it is to us.
        .option("maxFileAge", "36500d")
        .option("ignoreMissingFiles", "true")
    )
    if glob is not None:
        reader = reader.option("pathGlobFilter", glob)
    if max_files is not None:
        reader = reader.option("maxFilesPerTrigger", max_files)
    if clean:
        reader = reader.option("cleanSource", "delete")
    # The content is not selected, hence not read.
    return reader.load(_escaped(inbox)).select("path", "length").where(_COMPLETE)


@contextmanager
def listed_by_the_driver(spark: SparkSession, files: int) -> Iterator[None]:
    """For the time that a query runs in here: no distributed job to look at the files of each micro-batch.

    Spark's default is one from 32 files on, with a task for each file; measured at 5,000 files, that took 40 s per
    micro-batch instead of one.
    """
    name = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = spark.conf.get(name)
    spark.conf.set(name, str(max(files, int(before or 0))))
    try:
        yield
    finally:
        spark.conf.set(name, before or "32")


def messages(
    spark: SparkSession,
    inbox: Path,
    *,
    glob: str | None = None,
    max_files: int | None = None,
    max_bytes: int = LARGEST,
) -> DataFrame:
    """The messages of a folder as a streaming DataFrame (id, xml), for a job of one's own.

    A file that could not be read has a null for its xml; :func:`twigcast.spark.run_directory` keeps the reason too, and
    has the empty files that Spark passes over. Run the query inside of :func:`listed_by_the_driver`.
    """
    found = listing(spark, inbox, glob=glob, max_files=max_files)
    return found.mapInArrow(_Pairs(Load(str(inbox), max_bytes)), "id string, xml binary")


def passed_over(checkpoint: Path, batch: int) -> list[str]:
    """Files of a micro-batch that Spark marks as handed out and then drops in silence: empty, or gone when it looks.

    What was handed out stands in the checkpoint of the query.
    """
    paths = []
    for entry in range(_source_offset(checkpoint, batch - 1) + 1, _source_offset(checkpoint, batch) + 1):
        log = checkpoint / "sources" / "0" / str(entry)
        if not log.exists():
            log = log.with_name(f"{entry}.compact")  # with all earlier entries in it
        with log.open(encoding="utf-8") as lines:
            ours = [json.loads(line) for line in lines if line.rstrip().endswith(f'"batchId":{entry}}}')]
        paths += [local_path(unquote(file["path"])) for file in ours]
    return [path for path in paths if _complete(path) and not _has_content(path)]


def _source_offset(checkpoint: Path, batch: int) -> int:
    # One line per source, after a version and the settings of the batch. Batches and entries of the source are numbered
    # alike until a crash falls between the two.
    if batch < 0:
        return -1
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[2])["logOffset"])


def _complete(path: str) -> bool:
    name = path.rpartition("/")[2]
    return not name.startswith((".", "_")) and not name.endswith(".tmp")


def _has_content(path: str) -> bool:
    try:
        return Path(path).stat().st_size > 0
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Load:
    """From the listing to the messages; runs in a worker."""

    inbox: str
    max_bytes: int = LARGEST

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ids: list[str] = []
        contents: list[bytes | None] = []
        errors: list[dict[str, object] | None] = []
        size = 0
        for batch in batches:
            for path in batch.column("path").to_pylist():
                ids.append(os.path.relpath(local_path(path), self.inbox))
                content, error = self._read(local_path(path))
                contents.append(content)
                errors.append(error)
                size += len(content or b"")
                if size >= BYTES_AT_ONCE or len(ids) >= MESSAGES_AT_ONCE:
                    yield _messages(ids, contents, errors)
                    ids, contents, errors, size = [], [], [], 0
        if ids:
            yield _messages(ids, contents, errors)

    def _read(self, path: str) -> tuple[bytes | None, dict[str, object] | None]:
        try:
            raw = read_file(path, self.max_bytes)
        except MessageError as error:
            return None, _row(error)
        if not path.endswith(".gz"):
            return raw, None
        try:
            return unpack(raw, self.max_bytes), None
        except MessageError as error:
            return raw, _row(error)


def read_file(path: str, max_bytes: int) -> bytes:
    """The bytes of a file, or a :class:`MessageError`. A file beyond the limit is not read at all."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise refusal("unreadable", "not a regular file")
            if status.st_size > max_bytes:
                raise refusal(
                    "limit-size",
                    f"the file has {status.st_size} bytes, the limit is {max_bytes}; it stays in the inbox",
                )
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise refusal("unreadable", error.strerror or str(error)) from error
    if len(content) > max_bytes:
        raise refusal("limit-size", f"the file has more than {max_bytes} bytes; it stays in the inbox")
    return content


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


def local_path(path: str) -> str:
    """Spark names a file ``file:/…``, and does not escape anything in it."""
    return re.sub(r"^file:(//)?(?=/)", "", path)


def check_inbox(inbox: Path) -> Path:
    """The folder, absolute and without links, or an :class:`OptionError`."""
    if not inbox.exists():
        raise OptionError("no-inbox", f"there is no folder {inbox}", hint="create it, or check the name")
    if not inbox.is_dir():
        raise OptionError("no-inbox", f"{inbox} is not a folder", hint="give the folder that holds the messages")
    if not os.access(inbox, os.R_OK | os.X_OK):
        raise OptionError("no-inbox", f"the folder {inbox} cannot be read", hint="check its permissions")
    return inbox.resolve()


def unnameable(inbox: Path) -> int:
    """How many files the JVM does not see because their names are not UTF-8."""
    count = 0
    for folder, _, names in os.walk(os.fsencode(inbox)):
        for name in names:
            try:
                (folder + b"/" + name).decode("utf-8")
            except UnicodeDecodeError:
                count += 1
    return count


@dataclass(frozen=True, slots=True)
class _Pairs:
    load: Load

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.load(batches):
            yield batch.select(["id", "xml"])


def _messages(ids: list[str], contents: list[bytes | None], errors: list[dict[str, object] | None]) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip((ids, contents, errors), MESSAGES, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)


def refusal(code: str, text: str) -> MessageError:
    return MessageError(code, text, line=0, column=0, offset=0)


def _row(error: MessageError) -> dict[str, object]:
    # The file as a whole is at fault: no position.
    return {"code": error.code, "line": None, "column": None, "offset": None, "text": error.text}


def without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would wait for its writer.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _escaped(folder: Path) -> str:
    """Spark reads a path as a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(folder))
