"""The configuration of a pipeline: ``load("pipeline.toml")``, or ``parse`` for a text. See docs/configuration.md."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from twigcast.common.files import read_text
from twigcast.config.environment import Expansion, Key
from twigcast.config.errors import ConfigError, problems_of
from twigcast.config.models import (
    ArchiveSettings,
    CorrelationSettings,
    LimitSettings,
    MetricsSettings,
    Pipeline,
    PublisherSettings,
    Route,
    SparkSettings,
    StateSettings,
    StoreSettings,
    TriggerSettings,
)
from twigcast.config.sinks import AnySink, DirectorySink, KafkaSink, ParquetSink, Sink, StdoutSink, WebhookSink
from twigcast.config.streams import AnyStream, Directory, Kafka, Rate, Socket, Stream, Table
from twigcast.errors import OptionError, Span

__all__ = [
    "AnySink",
    "AnyStream",
    "ArchiveSettings",
    "ConfigError",
    "CorrelationSettings",
    "Directory",
    "DirectorySink",
    "Kafka",
    "KafkaSink",
    "LimitSettings",
    "MetricsSettings",
    "Outline",
    "ParquetSink",
    "Pipeline",
    "PublisherSettings",
    "Rate",
    "Route",
    "Sink",
    "Socket",
    "SparkSettings",
    "StateSettings",
    "StdoutSink",
    "StoreSettings",
    "Stream",
    "Table",
    "TriggerSettings",
    "WebhookSink",
    "load",
    "outline",
    "parse",
    "store_settings",
    "template",
]

# Tables with a path in them: where the file leaves them out, their defaults are relative to the file all the same.
_WITH_PATHS = ("store", "state")


@dataclass(frozen=True, slots=True)
class Outline:
    """What a configuration says without its secrets: where the state is, and the names of streams and sinks."""

    state: StateSettings
    streams: tuple[str, ...]
    sinks: tuple[str, ...]


def load(path: str | Path) -> Pipeline:
    """Reads a file. Relative paths in it are relative to its folder."""
    text, name, folder = _read(Path(path))
    return parse(text, name=name, folder=folder)


def outline(path: str | Path) -> Outline:
    """Read what a configuration says without its secrets, for commands that look at a pipeline and do not run it.

    Environment variables that are not set are mistakes only under ``[state]``. Anything else that is wrong with the
    file is reported: it may not be the file of the pipeline.
    """
    raw, folder = _read_section(path, "state")
    state = StateSettings.model_validate(raw["state"], context={"folder": folder})
    return Outline(state, tuple(raw["streams"]), tuple(raw["sinks"]))


def store_settings(path: str | Path) -> StoreSettings:
    """Read the ``[store]`` of a configuration. Environment variables that are not set are mistakes only there."""
    raw, folder = _read_section(path, "store")
    return StoreSettings.model_validate(raw["store"], context={"folder": folder})


def stream_names(path: str | Path) -> list[str]:
    """Return the names of the streams of a configuration."""
    raw, _ = _read_section(path, "streams")
    return list(raw["streams"])


def _read_section(path: str | Path, section: str) -> tuple[dict[str, Any], Path]:
    """Return a valid configuration as TOML has it, in which variables outside of ``section`` may not be set."""
    text, name, folder = _read(Path(path))
    expansion = Expansion(os.environ)
    raw = _expanded(text, name, expansion)
    _, problems = _validated(raw, expansion, folder)
    problems = [*(one for one in expansion.problems if one[0][0] == section), *problems]
    if problems:
        raise ConfigError(name, problems, text)
    return raw, folder


def parse(
    text: str, *, name: str = "configuration", folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Pipeline:
    """A configuration from its text; ``folder`` is what relative paths are relative to, else the current one."""
    expansion = Expansion(os.environ if environment is None else environment)
    raw = _expanded(text, name, expansion)
    pipeline, problems = _validated(raw, expansion, folder or Path.cwd())
    problems = [*expansion.problems, *problems]
    if problems or pipeline is None:
        raise ConfigError(name, problems, text)
    return pipeline


def _read(path: Path) -> tuple[str, str, Path]:
    text = read_text(path, hint="-c FILE names the configuration; twigcast init writes one")
    return text, str(path), path.absolute().parent


def _expanded(text: str, name: str, expansion: Expansion) -> dict[str, Any]:
    try:
        raw: dict[str, Any] = expansion.expand(_toml(text, name))
    except RecursionError:
        raise OptionError("bad-toml", f"{name}: lists or tables are nested too deeply") from None
    for section in _WITH_PATHS:
        raw.setdefault(section, {})
    return raw


def _validated(
    raw: dict[str, Any], expansion: Expansion, folder: Path
) -> tuple[Pipeline | None, list[tuple[Key, str]]]:
    """The pipeline, or what is wrong beside variables that are not set."""
    try:
        return Pipeline.model_validate(raw, context={"folder": folder}), []
    except ValidationError as error:
        unset = {key for key, _ in expansion.problems}
        return None, [(key, words) for key, words in problems_of(error, expansion.touched) if key not in unset]


def _toml(text: str, name: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = tomllib.loads(text)
        return document
    except tomllib.TOMLDecodeError as error:
        words = str(error)
        place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", words)
        if place is None:
            raise OptionError("bad-toml", f"{name}: {words}") from None
        lines = text.split("\n")
        line, column = (int(place[1]), int(place[2])) if place[1] else (len(lines), len(lines[-1]) + 1)
        # The caret wants a place in the text, and only the line is shown.
        source, at = lines[line - 1], column - 1
        words = words[: place.start()]
        raise OptionError(
            "bad-toml", f"{name}:{line}:{column}: {words}", source=source, span=Span(at, at + 1)
        ) from None


def template() -> str:
    """What ``twigcast init`` writes."""
    return Path(__file__).with_name("template.toml").read_text(encoding="utf-8")
