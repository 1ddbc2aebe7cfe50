"""Values of a configuration that TOML has no type for: durations, sizes, locations, names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationInfo

from twigcast.common.references import absolute
from twigcast.units import SECOND, parse_duration, parse_size


class Problems(ValueError):
    """What a check of several keys at once found: for each, the key (below where the check stands) and words."""

    def __init__(self, *found: tuple[tuple[str | int, ...], str]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, key))}: {text}" for key, text in found))
        self.found = found


class Section(BaseModel):
    """A table of the file. Unknown keys are mistakes; values that were refused are never echoed by pydantic itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)


def _seconds(value: Any) -> float:
    return parse_duration(value) / SECOND


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be greater than 0")
    return value


def _folder(info: ValidationInfo) -> Path:
    return Path((info.context or {}).get("folder", "."))


def _text(value: Any) -> Any:
    """An option's value as Spark and Kafka want it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _not_empty(value: Any) -> Any:
    if isinstance(value, str) and (not value.strip() or "\0" in value):
        raise ValueError("must be a path")
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


def _path(value: Path, info: ValidationInfo) -> Path:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(value)):
        raise ValueError("must be a path on this machine, not a URL")
    return (_folder(info) / value.expanduser()).absolute()


def _location(value: str, info: ValidationInfo) -> str:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", value):
        return value
    return str(_path(Path(value), info))


def _reference(value: str, info: ValidationInfo) -> str:
    return absolute(value, _folder(info))


def _secret(value: SecretStr, info: ValidationInfo) -> SecretStr:
    return SecretStr(absolute(value.get_secret_value(), _folder(info)))


def _servers(value: Any) -> Any:
    return ",".join(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


def _name(value: str) -> str:
    # It becomes the name of a folder and of a metric's label; a leading _ or . marks what is not a stream's.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", value):
        raise ValueError("a name is made of letters, digits, '-', '_' and '.', starts with a letter or digit, up to 64")
    return value


def _stream_name(value: str) -> str:
    # The log and the checkpoints of correlations and of redriven messages lie beside those of the streams.
    if value == "correlations" or value.endswith(".redrive"):
        raise ValueError("no stream can be named 'correlations' or end in '.redrive': Twigcast has logs of these names")
    return value


Name = Annotated[str, AfterValidator(_name)]
StreamName = Annotated[Name, AfterValidator(_stream_name)]
Duration = Annotated[float, BeforeValidator(_seconds), AfterValidator(_positive)]
DurationOrZero = Annotated[float, BeforeValidator(_seconds)]
"""Seconds."""
Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0, lt=2**32)]
Count = Annotated[int, BeforeValidator(_whole), Field(gt=0)]
CountOrZero = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
Port = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=65536)]
LocalPath = Annotated[Path, BeforeValidator(_not_empty), AfterValidator(_path)]
"""Absolute; what is relative in the file is relative to the folder of the file."""
Location = Annotated[str, BeforeValidator(_not_empty), AfterValidator(_location)]
"""An absolute path, or a URL that Spark can read (``hdfs://…``, ``s3a://…``)."""
Servers = Annotated[str, BeforeValidator(_servers), Field(min_length=1)]
"""``host:port,host:port``; a list in the file is fine too."""
Options = dict[str, Annotated[str, BeforeValidator(_text)]]
"""Passed on as they are. They may hold passwords, so give such a field ``repr=False``."""
SecretOptions = dict[str, Annotated[str, BeforeValidator(_text), AfterValidator(_reference)]]
"""Options whose values may be ``env:NAME`` or ``file:PATH``, which are looked up when the options are used."""
Secret = Annotated[SecretStr, AfterValidator(_secret)]
"""A secret, ``env:NAME`` or ``file:PATH``; the latter two are looked up when the secret is used."""
