"""Pipelines for tests: a folder with a configuration, an inbox, a store; and what its sinks have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from twigcast import config
from twigcast.store import Store

CONFIG = """
[store]
url = "sqlite:///{folder}/store.db"
[state]
path = "{folder}/state"
[trigger]
interval = "100 ms"
[streams.in]
source = "directory"
path = "{folder}/in"
max_files = {max_files}
[sinks.files]
kind = "directory"
path = "{folder}/files"
[sinks.lake]
kind = "parquet"
path = "{folder}/lake"
{more}
"""


class Site:
    """One pipeline's folder."""

    def __init__(self, folder: Path, more: str = "", max_files: int = 1000) -> None:
        self.folder = folder
        self.inbox = folder / "in"
        self.inbox.mkdir(parents=True)
        self.file = folder / "pipeline.toml"
        self.file.write_text(CONFIG.format(folder=folder, more=more, max_files=max_files))

    @property
    def settings(self) -> config.Pipeline:
        return config.load(self.file)

    @contextmanager
    def store(self) -> Iterator[Store]:
        with Store.open(self.settings.store.url) as store:
            yield store

    def put(self, name: str, xml: str | bytes) -> None:
        """A file that appears whole."""
        fresh = self.folder / f"fresh-{name.replace('/', '-')}"
        fresh.write_bytes(xml.encode() if isinstance(xml, str) else xml)
        fresh.rename(self.inbox / name)

    def in_lake(self) -> Counter[tuple[str, str]]:
        """(message, subscription) of the Parquet sink, with how often each is there."""
        found: Counter[tuple[str, str]] = Counter()
        for path in (self.folder / "lake").glob("date=*/*.parquet"):
            table = pq.ParquetFile(path).read(columns=["message", "subscription"])
            found.update(zip(table["message"].to_pylist(), table["subscription"].to_pylist(), strict=True))
        return found

    def in_files(self) -> list[Path]:
        """The files of the directory sink, one per delivery."""
        root = self.folder / "files"
        every = (path for path in root.rglob("*") if path.is_file())
        return [path for path in every if not any(part[0] in "._" for part in path.relative_to(root).parts)]
