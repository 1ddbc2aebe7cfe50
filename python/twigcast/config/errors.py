"""A wrong configuration: every problem at once, each with its key, its line if that can be told, and what is right."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from twigcast.common.removed import replaced_by
from twigcast.common.text import suggest
from twigcast.config.environment import Key
from twigcast.config.models import Pipeline
from twigcast.config.sinks import AnySink
from twigcast.config.streams import AnyStream
from twigcast.config.values import Problems
from twigcast.errors import TwigcastError

TAGS = {"streams": "source", "sinks": "kind"}
_TYPES = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a string",
    "list_type": "a list",
    "ip_any_network": "a network such as 10.0.0.0/8 or fd00::/8",
}
"""What a value has to be, by pydantic's name of the mistake."""


class ConfigError(TwigcastError):
    """``problems`` has (key, words) for each."""

    def __init__(self, name: str, problems: Iterable[tuple[Key, str]], text: str = "") -> None:
        self.problems = [(dotted(key), words) for key, words in problems]
        self.name = name
        lines = [(line_of(text, key), dotted(key), words) for key, words in problems]
        self._shown = [
            f"{name}:{line}: {key}: {words}" if line else f"{name}: {key}: {words}" for line, key, words in lines
        ]
        super().__init__("bad-configuration", "\n".join(self._shown))

    def __str__(self) -> str:
        return "\n".join(self._shown)


def dotted(key: Key) -> str:
    shown = ""
    for part in key:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += ("." if shown else "") + (part if re.fullmatch(r"[\w-]+", part) else f'"{part}"')
    return shown


def problems_of(error: ValidationError, secret: Container[Key]) -> list[tuple[Key, str]]:
    found: list[tuple[Key, str]] = []
    for one in error.errors(include_url=False):
        key = _key(one["loc"])
        cause = one.get("ctx", {}).get("error")
        if isinstance(cause, Problems):
            found += [((*key, *below), text) for below, text in cause.found]
        else:
            details = dict(one.get("ctx", {}))
            tag = TAGS.get(str(key[0])) if key else None
            if tag is not None and (*key, tag) in secret:
                details.pop("tag", None)
            shown = isinstance(one["input"], (str, int, float)) and key not in secret
            kind = str(one["loc"][2]) if len(one["loc"]) > 3 and one["loc"][0] in TAGS else None
            found.append(_words(one["type"], key, one["msg"], details, one["input"] if shown else None, kind))
    return found


def _key(loc: tuple[int | str, ...]) -> Key:
    """pydantic puts the tag of a union's member into the path to a value; the file has no such key."""
    key = loc
    if len(key) > 2 and key[0] in TAGS and key[2] != "[key]":
        key = (*key[:2], *key[3:])
    return tuple(part for part in key if part != "[key]")


def _words(
    kind: str, key: Key, text: str, details: dict[str, Any], value: Any, member: str | None = None
) -> tuple[Key, str]:
    """Return the key of a problem and what is wrong with it. ``member`` is the kind of source or sink it belongs to."""
    if kind == "missing":
        return key, "is missing"
    if kind == "extra_forbidden":
        if hint := replaced_by(str(key[-1])):
            return key, f"there is no such key any more; {hint}"
        return key, f"there is no such key; {suggest(str(key[-1]), _known(key[:-1], member))}"
    if kind == "union_tag_not_found":
        tag = TAGS[str(key[0])]
        return (*key, tag), f"is missing; use one of {', '.join(_tags(str(key[0])))}"
    if kind == "union_tag_invalid":
        tag, tags = TAGS[str(key[0])], _tags(str(key[0]))
        given = details.get("tag")
        if given is None:
            return (*key, tag), f"must be one of {', '.join(tags)}"
        return (*key, tag), f"there is no {tag} {given!r}; {suggest(str(given), tags)}"
    if kind == "literal_error":
        given = "" if value is None else f", not {value!r}"
        return key, f"must be {details['expected']}{given}"
    if kind == "too_short":
        return key, "is empty; at least one is needed"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return key, "must be a table"
    if kind == "value_error":
        cause = details.get("error", text)
        if isinstance(cause, TwigcastError):
            return key, cause.text + (f"; {cause.hint}" if cause.hint else "")
        return key, str(cause)
    if kind == "list_type" and key == ("routes",):
        return key, "must be a list of tables; begin each route with [[routes]]"
    text = _TYPES.get(kind) or text.removeprefix("Input should be ").removeprefix("Value should have ")
    return key, f"must be {text}" + ("" if value is None else f", not {value!r}")


def members(section: str) -> dict[str, type[BaseModel]]:
    union = get_args(AnyStream if section == "streams" else AnySink)[0]
    tag = TAGS[section]
    return {get_args(member.model_fields[tag].annotation)[0]: member for member in get_args(union)}


def _tags(section: str) -> list[str]:
    return list(members(section))


def _known(table: Key, member: str | None) -> list[str]:
    """Return the keys that a table may have; a source or sink has those of its kind."""
    if not table:
        return list(Pipeline.model_fields)
    section = str(table[0])
    if section in TAGS:
        models = members(section)
        chosen = [models[member]] if member in models else list(models.values())
        return sorted({field.alias or name for model in chosen for name, field in model.model_fields.items()})
    annotation = Pipeline.model_fields[section].annotation
    todo = [annotation]
    while todo:
        one = todo.pop()
        if isinstance(one, type) and issubclass(one, BaseModel):
            return [field.alias or name for name, field in one.model_fields.items()]
        todo += get_args(one)
    return []


def line_of(text: str, key: Key) -> int | None:
    """The line that a key stands on, from 1; where it has none, that of the table it belongs to, else nothing.

    TOML's reader tells no positions. This looks for headers and for ``key =`` at the start of a line, which finds
    what people write; a key inside an inline table is told by the line of that table.
    """
    wanted = tuple(part for part in key if isinstance(part, str))
    index = next((part for part in key if isinstance(part, int)), None)
    best: tuple[int, int] | None = None
    table: tuple[str, ...] = ()
    seen = -1
    for number, line in enumerate(text.split("\n"), start=1):
        header = re.match(r"\s*\[(\[)?\s*([^\]]+?)\s*\]", line)
        if header:
            table = _parts(header[2])
            seen += bool(header[1]) and table == wanted[: len(table)]
            here = table
        else:
            assignment = re.match(
                r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=", line
            )
            if not assignment:
                continue
            here = table + _parts(assignment[1])
        of_another = index is not None and seen >= 0 and seen != index
        if here == wanted[: len(here)] and here and not of_another and (best is None or len(here) > best[0]):
            best = len(here), number
    return best[1] if best else None


def _parts(dotted_key: str) -> tuple[str, ...]:
    return tuple(bare or quoted[1:-1] for bare, quoted in re.findall(r"([\w-]+)|(\"[^\"]*\"|'[^']*')", dotted_key))
