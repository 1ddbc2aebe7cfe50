"""The configuration of a pipeline: one TOML file, as it is and as defaults complete it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, create_model, field_validator, model_validator

from twigcast.config.sinks import AnySink, DirectorySink, ParquetSink
from twigcast.config.streams import AnyStream, Directory, Table
from twigcast.config.values import (
    Count,
    CountOrZero,
    Duration,
    DurationOrZero,
    LocalPath,
    Name,
    Options,
    Port,
    Problems,
    Section,
    Size,
    StreamName,
)
from twigcast.engine.failures import AFTER, WITHIN, PauseRule
from twigcast.errors import OptionError
from twigcast.limits import Limits
from twigcast.store.database import HISTORY
from twigcast.store.urls import check_url, resolve, sqlite_file


class StoreSettings(Section):
    """``[store]``: where subscriptions are kept."""

    url: str = Field(default="sqlite:///twigcast.db", repr=False)
    """Not in ``repr``: it may hold a password."""
    history: Duration = HISTORY
    """For so long it is known what has changed; a run that was away for longer loads everything, as a new one does."""

    @field_validator("url")
    @classmethod
    def _url_is_known(cls, value: str, info: ValidationInfo) -> str:
        return resolve(check_url(value), Path((info.context or {}).get("folder", ".")))


class StateSettings(Section):
    """``[state]``: what the pipeline itself must remember. Deleting it starts from nothing."""

    path: LocalPath = Path("twigcast-state")

    @field_validator("path")
    @classmethod
    def _path_can_be_a_folder(cls, value: Path) -> Path:
        with suppress(OSError):  # what may not be looked at is told when it is to be used
            there = next(path for path in (value, *value.parents) if path.exists())
            if not there.is_dir():
                raise ValueError(f"must be a folder, and {there} is a file")
        return value

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def outbox(self) -> Path:
        return self.path / "outbox.db"

    @property
    def dead(self) -> Path:
        return self.path / "dead.db"


class TriggerSettings(Section):
    """``[trigger]``: when a micro-batch begins."""

    interval: Duration = 1
    """A new one at most so often."""
    once: bool = False
    """Take what is there, then end."""

    @model_validator(mode="after")
    def _one_of_them(self) -> TriggerSettings:
        if self.once and "interval" in self.model_fields_set:
            raise Problems((("interval",), "goes without once = true; leave one of them out"))
        return self


_SIZES: dict[str, Any] = {name: (Size, value) for name, value in Limits().as_dict().items()}
_Limits = create_model("_Limits", __base__=Section, **_SIZES)
"""A size for each of the limits."""


class LimitSettings(_Limits):  # type: ignore[misc,valid-type]
    """``[limits]``: bounds on what one message may cost, as ``twigcast.Limits``."""

    @model_validator(mode="after")
    def _in_range(self) -> LimitSettings:
        found = []
        for name, value in self:
            try:
                Limits(**{name: value})
            except OptionError as error:
                found.append(((name,), error.text.removeprefix(f"{name} ")))
        if found:
            raise Problems(*found)
        return self

    def limits(self) -> Limits:
        return Limits(**self.model_dump())


class MetricsSettings(Section):
    """``[metrics]``: Prometheus metrics over HTTP, if there is a port."""

    port: Port | None = None
    host: str = "127.0.0.1"


class ArchiveSettings(Section):
    """``[archive]``: every message is kept there, for ``twigcast replay``."""

    path: LocalPath


class CorrelationSettings(Section):
    """``[correlations]``: what is kept of messages for those that may join with them."""

    lateness: DurationOrZero | None = None
    """How much older than the newest message one may be; without it, as much as the longest window."""
    max_state: Size = 1 << 30
    """Memory of a worker; beyond it the oldest messages are forgotten before their time, with a warning."""


class SubscriptionSettings(Section):
    """``[subscriptions]``: when one that keeps failing is paused."""

    pause_after: CountOrZero = AFTER
    """Failures on so many messages,"""
    pause_within: Count = WITHIN
    """of so many in succession; ``pause_after = 0``: never."""

    @model_validator(mode="after")
    def _fits(self) -> SubscriptionSettings:
        if self.pause_after > self.pause_within:
            raise Problems((("pause_after",), f"must not be greater than pause_within ({self.pause_within})"))
        return self

    @property
    def rule(self) -> PauseRule:
        return PauseRule(self.pause_after, self.pause_within)


class SparkSettings(Section):
    """``[spark]``: how Spark runs; the command line's options come first."""

    master: str | None = None
    """``local[*]``, ``spark://…``, ``yarn``, ``k8s://…``."""
    shards: Count = 1
    """Into how many parts the subscriptions are split, where all of them are too many for a worker's memory."""
    options: Options = Field(default_factory=dict, repr=False)
    """Spark's own settings, such as ``"spark.executor.memory"``."""


class PublisherSettings(Section):
    """``[publishers.NAME]``: what is known of a publisher's messages."""

    schema_file: LocalPath = Field(alias="schema")
    on_invalid: Literal["reject", "fallback", "trust"] = "fallback"
    """What becomes of an invalid message: a dead letter; matched without the schema; not checked."""

    @field_validator("schema_file")
    @classmethod
    def _schema_is_there(cls, value: Path) -> Path:
        if value.suffix.lower() not in (".dtd", ".xsd"):
            raise ValueError("must be a file that ends in .dtd or .xsd")
        if not value.is_file():
            raise ValueError(f"there is no file {value}")
        return value

    @property
    def schema_kind(self) -> Literal["dtd", "xsd"]:
        return "dtd" if self.schema_file.suffix.lower() == ".dtd" else "xsd"


class Route(Section):
    """``[[routes]]``: a delivery goes to the sinks of every route that fits it; a route without ``subscribers`` and
    ``subscriptions`` takes what no other route takes. Patterns are shell globs (``*``, ``?``, ``[abc]``)."""

    subscribers: list[str] = Field(default_factory=list)
    subscriptions: list[str] = Field(default_factory=list)
    sinks: list[Name] = Field(min_length=1)


class Pipeline(Section):
    """The whole file."""

    store: StoreSettings = StoreSettings()
    state: StateSettings = StateSettings()
    trigger: TriggerSettings = TriggerSettings()
    limits: LimitSettings = LimitSettings()
    metrics: MetricsSettings = MetricsSettings()
    archive: ArchiveSettings | None = None
    correlations: CorrelationSettings = CorrelationSettings()
    subscriptions: SubscriptionSettings = SubscriptionSettings()
    spark: SparkSettings = SparkSettings()
    streams: dict[StreamName, AnyStream] = Field(min_length=1)
    publishers: dict[Name, PublisherSettings] = Field(default_factory=dict)
    sinks: dict[Name, AnySink] = Field(min_length=1)
    routes: list[Route] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_lead_somewhere(self) -> Pipeline:
        found: list[tuple[tuple[str | int, ...], str]] = []
        for name, stream in self.streams.items():
            if stream.publisher is not None and stream.publisher not in self.publishers:
                found.append((("streams", name, "publisher"), _no("publisher", stream.publisher, self.publishers)))
        for i, route in enumerate(self.routes):
            unknown = [sink for sink in route.sinks if sink not in self.sinks]
            found += [(("routes", i, "sinks"), _no("sink", sink, self.sinks)) for sink in unknown]
        found += self._loops()
        if found:
            raise Problems(*found)
        return self

    def _loops(self) -> list[tuple[tuple[str | int, ...], str]]:
        """What the pipeline writes must not be what it reads."""
        written: dict[tuple[str, ...], Path] = {("state", "path"): self.state.path}
        if self.archive is not None:
            written["archive", "path"] = self.archive.path
        for name, sink in self.sinks.items():
            if isinstance(sink, (DirectorySink, ParquetSink)):
                written["sinks", name, "path"] = sink.path
        for name, stream in self.streams.items():
            if isinstance(stream, Directory) and stream.move_to is not None:
                written["streams", name, "move_to"] = stream.move_to
        found: list[tuple[tuple[str | int, ...], str]] = []
        for name, stream in self.streams.items():
            inbox = Path(stream.path) if isinstance(stream, (Directory, Table)) and "://" not in stream.path else None
            for key, path in written.items():
                if inbox is not None and path.resolve().is_relative_to(inbox.resolve()):
                    found.append((key, f"lies in the folder that the stream {name!r} reads: {inbox}"))
            store = sqlite_file(self.store.url)
            if inbox is not None and store is not None and store.resolve().is_relative_to(inbox.resolve()):
                found.append((("store", "url"), f"lies in the folder that the stream {name!r} reads: {inbox}"))
        return found + self._overlaps(written)

    def _overlaps(self, written: dict[tuple[str, ...], Path]) -> list[tuple[tuple[str | int, ...], str]]:
        """Who empties the state folder to begin anew, or an output folder, must not lose the other with it."""
        state = self.state.path.resolve()
        found: list[tuple[tuple[str | int, ...], str]] = []
        for key, path in written.items():
            if key == ("state", "path"):
                continue
            if path.resolve().is_relative_to(state):
                found.append((key, f"lies in the state folder: {self.state.path}; use a folder outside of it"))
            elif state.is_relative_to(path.resolve()):
                found.append((key, f"holds the state folder: {self.state.path}; use a folder beside it"))
        return found


def _no(what: str, name: str, known: Iterable[str]) -> str:
    names = ", ".join(sorted(known))
    return f"there is no {what} {name!r}; " + (f"use one of {names}" if names else f"the file has no [{what}s.{name}]")
