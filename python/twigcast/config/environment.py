"""``${NAME}`` in a string stands for an environment variable, so that secrets stay out of files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

Key = tuple[str | int, ...]

# $${ is a plain ${; a default may follow the name: ${NAME:-default}
_REFERENCE = re.compile(r"\$(\$(?=\{))|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")


class Expansion:
    """``problems`` are variables that are not set, ``touched`` the keys whose values must never be shown."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.problems: list[tuple[Key, str]] = []
        self.touched: set[Key] = set()

    def expand(self, value: Any, key: Key = ()) -> Any:
        if isinstance(value, dict):
            return {name: self.expand(below, (*key, name)) for name, below in value.items()}
        if isinstance(value, list):
            return [self.expand(below, (*key, i)) for i, below in enumerate(value)]
        return self._text(value, key) if isinstance(value, str) and "${" in value else value

    def _text(self, value: str, key: Key) -> str:
        self.touched.add(key)

        def replace(found: re.Match[str]) -> str:
            if found[1]:
                return "$"
            if found[2] is None:
                self.problems.append((key, "after '${' comes the name of an environment variable and '}'"))
                return ""
            result = self._environment.get(found[2], found[3])
            if result is None:
                self.problems.append((key, f"the environment variable {found[2]} is not set"))
            in_password = (
                "://" in value and value[: found.start()].endswith(":") and value[found.end() :].startswith("@")
            )
            # A password may hold what would end it in a URL.
            return quote(result or "", safe="") if in_password else result or ""

        return _REFERENCE.sub(replace, value)
