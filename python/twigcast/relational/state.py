"""What one process knows of the tables: linear paths, branches and tag paths, here and in the kernel's shredder.

The tables are the truth; this is a copy of the small ones. A path that is new here is entered there; what it means to
the tag paths, and a new tag path to the linear paths, the kernel works out, and the news go into PathMatch and
TagPath_BrInfo (relational §3.4, §3.5.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from twigcast import _kernel
from twigcast.plan.encode import StepCodes
from twigcast.relational.database import Database, as_table, temporary
from twigcast.relational.paths import pieces, reverse, steps_of

# Tag paths that are kept, whether or not anybody asks for them; hostile messages never repeat one.
MAX_TAG_PATHS = 1 << 18

_LINEAR_PATH = pa.schema(
    [
        ("id", pa.int32()),
        ("linear_path", pa.string()),
        ("prefix", pa.string()),
        ("middle", pa.string()),
        ("postfix", pa.string()),
        ("valued", pa.bool_()),
    ]
)
_BR_INFO = pa.schema([("br_info_id", pa.int32()), ("linear_path_id", pa.int32()), ("br_info", pa.string())])
_TAG_PATH = pa.schema([("tagpath_id", pa.int32()), ("tagpath", pa.string()), ("inv_tagpath", pa.string())])
_PATH_MATCH = pa.schema([("tagpath_id", pa.int32()), ("linear_path_id", pa.int32())])
_NUMBERS = pa.list_(pa.int32())
_BINDING = pa.schema(
    [("tagpath_id", pa.int32()), ("br_info_id", pa.int32()), ("points", _NUMBERS), ("bp_position", _NUMBERS)]
)

Points = tuple[tuple[int, int], ...]


class State:
    def __init__(self, database: Database, changes: int) -> None:
        self.changes = changes
        self._database = database
        self.shredder = _kernel.Shredder()
        self._codes = StepCodes(self.shredder)
        self._paths: dict[str, int] = {}
        self._valued: set[int] = set()
        self._branches: dict[tuple[int, str], int] = {}
        self._points: dict[int, list[int]] = {}
        # tag paths: the kernel's number -> that of tagpath_map
        self._tag_paths: list[int] = []
        self._as_array: Any = None
        self._last_tag_path = 0
        self._read()

    def _read(self) -> None:
        rows = self._database.rows
        for id, text, valued in rows("SELECT id, linear_path, valued FROM query_linear_path ORDER BY id"):
            self._paths[text] = id
            if valued:
                self._valued.add(id)
            self._tell_path(id, text, valued)
        for id, path, info in rows("SELECT br_info_id, linear_path_id, br_info FROM linear_path_br_info"):
            self._branches[path, info] = id
            self._tell_branch(id, path, points_of(info))
        self.read_tag_paths()
        self.shredder.news()  # the tables have all that

    def read_tag_paths(self) -> None:
        """Those that other processes have entered."""
        found = self._database.rows(
            "SELECT tagpath_id, tagpath FROM tagpath_map WHERE tagpath_id > ? ORDER BY tagpath_id",
            [self._last_tag_path],
        )
        for id, text in found:
            self._number(self.shredder.add_tag_path(text), id)

    def _number(self, tag_path: int, id: int) -> None:
        self._tag_paths += [0] * (tag_path + 1 - len(self._tag_paths))
        self._tag_paths[tag_path] = id
        self._as_array = None
        self._last_tag_path = max(self._last_tag_path, id)

    def _tell_path(self, id: int, text: str, valued: bool) -> None:
        self.shredder.add_path(id, [self._codes[step] for step in steps_of(text)], valued)

    def _tell_branch(self, id: int, path: int, points: Points) -> None:
        self._points[id] = [number for number, _ in points]
        self.shredder.add_branch(id, path, [step - 1 for _, step in points])

    @property
    def is_large(self) -> bool:
        return self.shredder.tag_paths() > MAX_TAG_PATHS

    # -- within a change

    def enter_paths(self, paths: dict[str, bool]) -> dict[str, int]:
        """Enter linear paths that are new, and whether somebody compares their values. Return the numbers of all."""
        fresh: list[tuple[int, str]] = []
        for text, valued in paths.items():
            id = self._paths.get(text)
            if id is None:
                id = self._paths[text] = max(self._paths.values(), default=0) + 1 if not fresh else fresh[-1][0] + 1
                fresh.append((id, text))
                if valued:
                    self._valued.add(id)
                self._tell_path(id, text, valued)
            elif valued and id not in self._valued:
                self._valued.add(id)
                self._database.execute("UPDATE query_linear_path SET valued = TRUE WHERE id = ?", [id])
                self._tell_path(id, text, valued)
        if fresh:
            rows = [(id, text, *pieces(text), id in self._valued) for id, text in fresh]
            self._database.insert("query_linear_path", as_table(rows, _LINEAR_PATH))
        return self._paths

    def enter_branches(self, branches: Iterable[tuple[int, Points]]) -> dict[tuple[int, str], int]:
        """Enter branches that are new. Return the numbers of all by linear path and ``br_info``."""
        fresh: list[tuple[int, int, str]] = []
        last = max(self._branches.values(), default=0)
        for path, points in branches:
            info = br_info(points)
            if (path, info) not in self._branches:
                last += 1
                self._branches[path, info] = last
                fresh.append((last, path, info))
                self._tell_branch(last, path, points)
        if fresh:
            self._database.insert("linear_path_br_info", as_table(fresh, _BR_INFO))
        return self._branches

    def write_news(self, news: tuple[list[Any], list[Any]]) -> None:
        """Write what the kernel has found out into Tagpath_Map, PathMatch and TagPath_BrInfo."""
        matches, positions = news
        if not matches and not positions:
            return
        db = self._database
        unknown = [n for n in dict.fromkeys(n for n, *_ in (*matches, *positions)) if not self._id(n)]
        if unknown:
            self.read_tag_paths()
            unknown = [n for n in unknown if not self._id(n)]
        if unknown:
            texts = [self.shredder.tag_path(n) for n in unknown]
            ids = range(self._last_tag_path + 1, self._last_tag_path + 1 + len(unknown))
            rows = [(id, text, reverse(text)) for id, text in zip(ids, texts, strict=True)]
            db.insert("tagpath_map", as_table(rows, _TAG_PATH))
            for number, id in zip(unknown, ids, strict=True):
                self._number(number, id)
        # what another process has entered before is no news there
        self._insert_new("path_match", _PATH_MATCH, [(self._id(tag), path) for tag, path in matches])
        bindings = [(self._id(tag), branch, self._points[branch], depths) for tag, branch, depths in positions]
        self._insert_new("tagpath_br_info", _BINDING, bindings)

    def _insert_new(self, table: str, schema: pa.Schema, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        db, names = self._database, ", ".join(schema.names)
        same = " AND ".join(f"t.{name} = n.{name}" for name in schema.names)
        with temporary(db, "new_rows", as_table(rows, schema)):
            db.execute(
                f"INSERT INTO {table} ({names}) SELECT DISTINCT {names} FROM new_rows n"
                f" WHERE NOT EXISTS (SELECT 1 FROM {table} t WHERE {same})"
            )

    def _id(self, tag_path: int) -> int:
        return self._tag_paths[tag_path] if tag_path < len(self._tag_paths) else 0

    def ids_of(self, tag_paths: pa.Array) -> pa.Array:
        """Return the tables' numbers of tag paths for the kernel's."""
        if self._as_array is None:
            self._as_array = pa.array(self._tag_paths, pa.int32())
        return self._as_array.take(tag_paths)


def br_info(points: Points) -> str:
    return "&".join(f"bp#{number}={step}" for number, step in points)


def points_of(info: str) -> Points:
    pairs = (part.removeprefix("bp#").partition("=") for part in info.split("&"))
    return tuple((int(number), int(step)) for number, _, step in pairs)
