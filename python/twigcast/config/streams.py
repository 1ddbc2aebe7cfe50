"""``[streams.NAME]``: where messages come from. One class per source; common keys in ``Stream``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from twigcast.common.globs import glob_pattern
from twigcast.config.values import (
    Count,
    DurationOrZero,
    LocalPath,
    Location,
    Name,
    Options,
    Port,
    Problems,
    SecretOptions,
    Section,
    Servers,
)
from twigcast.errors import OptionError, TwigcastError
from twigcast.lang.xpath import parse


class Stream(Section):
    """What every stream has."""

    publisher: Name | None = None
    """One of ``[publishers]``: its schema is that of this stream's messages."""
    time: str = "arrival"
    """Event time: ``arrival``, ``transport`` (Kafka's timestamp, a file's date, ``time_column``), or a path in the
    message such as ``/order/@at``."""
    namespaces: dict[str, str] = Field(default_factory=dict)
    """Prefixes for the path in ``time``."""
    max_ahead: DurationOrZero = 3600
    """A message whose event time is further ahead of its arrival is a dead letter: it would make all others late."""

    @model_validator(mode="after")
    def _time_is_known(self) -> Stream:
        if self.time in ("arrival", "transport"):
            return self
        if not self.time.startswith("/"):
            raise Problems((("time",), "must be 'arrival', 'transport' or a path in the message such as '/order/@at'"))
        try:
            parse(self.time, self.namespaces, None)
        except TwigcastError as error:
            if error.code == "undeclared-prefix":
                error.hint = "declare it with the key namespaces of the stream"
            raise Problems((("time",), f"{error}")) from None
        return self


class Directory(Stream):
    """Files of a folder, also ``.gz``."""

    source: Literal["directory"]
    path: Location
    glob: str = "*"
    messages: Literal["file", "lines", "records"] = "file"
    """A message is a file, a line of a file, or each ``record`` element of a file."""
    record: str | None = None
    max_files: Count = 5_000
    """Most files of one micro-batch."""
    follow_links: bool = False
    """Follow symbolic links whose targets lie in the folder; others are always skipped."""
    after: Literal["keep", "move", "delete"] = "keep"
    """What becomes of a file once its messages are in the delivery log."""
    move_to: LocalPath | None = None
    """Where files go with ``after = "move"``."""

    @field_validator("glob")
    @classmethod
    def _glob_is_one(cls, value: str) -> str:
        try:
            glob_pattern(value)
        except OptionError as error:
            raise Problems(((), f"{error.text}; {error.hint}")) from None
        return value

    @model_validator(mode="after")
    def _after_is_whole(self) -> Directory:
        if self.after == "move" and self.move_to is None:
            raise Problems(
                (("move_to",), 'is missing; with after = "move" it names the folder that files are moved to')
            )
        if self.after != "move" and self.move_to is not None:
            raise Problems((("move_to",), 'goes with after = "move"'))
        if self.after != "keep" and self.follow_links:
            raise Problems((("follow_links",), f'goes with after = "keep", not with "{self.after}"'))
        return self

    @model_validator(mode="after")
    def _record_goes_with_records(self) -> Directory:
        if self.messages == "records" and not self.record:
            raise Problems(
                (("record",), 'is missing; with messages = "records" it names the element that is a message')
            )
        if self.messages != "records" and self.record:
            raise Problems((("record",), 'goes with messages = "records"'))
        return self


class Kafka(Stream):
    """A topic of Kafka; its messages' keys, offsets and headers travel along."""

    source: Literal["kafka"]
    bootstrap_servers: Servers
    topic: str = Field(min_length=1)
    starting: Literal["earliest", "latest"] = "earliest"
    """Where the first run begins; later ones go on where the last one ended."""
    max_offsets: Count = 100_000
    """Most messages of one micro-batch."""
    options: SecretOptions = Field(default_factory=dict, repr=False)
    """For Spark's connector, such as ``"kafka.security.protocol"``; values may be ``env:NAME`` or ``file:PATH``."""


class Table(Stream):
    """Files of a format that Spark reads (Parquet, JSON Lines, ORC, Delta…), one message per row."""

    source: Literal["table"]
    path: Location
    format: str = "parquet"
    xml_column: str = "xml"
    id_column: str | None = None
    time_column: str | None = None
    max_files: Count = 1_000
    options: Options = Field(default_factory=dict, repr=False)
    """For Spark's reader."""

    @model_validator(mode="after")
    def _transport_time_is_a_column(self) -> Table:
        if self.time == "transport" and self.time_column is None:
            raise Problems((("time_column",), 'is missing; with time = "transport" it names the column'))
        return self


class Socket(Stream):
    """Lines from a TCP socket, one message each. For trying things out: Spark cannot replay a socket."""

    source: Literal["socket"]
    host: str = "127.0.0.1"
    port: Port


class Rate(Stream):
    """Messages made up at a steady rate, for tests."""

    source: Literal["rate"]
    rows_per_second: Count = 10
    template: str = '<tick number="{value}"/>'

    @field_validator("template")
    @classmethod
    def _template_has_a_value(cls, value: str) -> str:
        if "{value}" not in value:
            raise ValueError("must hold {value}, which stands for the message's number")
        return value


AnyStream = Annotated[Directory | Kafka | Table | Socket | Rate, Field(discriminator="source")]
