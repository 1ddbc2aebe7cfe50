"""Who publishes a stream, and whether its messages must be valid: the configuration's word, else the store's."""

from __future__ import annotations

import hashlib
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from twigcast import config
from twigcast.delivery.files import replace
from twigcast.errors import TwigcastError
from twigcast.spark.stages.validity import ANYTHING, Validity

if TYPE_CHECKING:
    from twigcast.store import PublisherRecord, Store

log = logging.getLogger(__name__)


class Publishers:
    """Any thread may ask. Schemas of the store become files of the state folder, where all workers find them."""

    def __init__(self, settings: config.Pipeline, store: Store) -> None:
        self._settings = settings
        self._limits = settings.limits.limits()
        self._store = store
        self._lock = threading.Lock()
        self._version = -1
        self._known: dict[str, Validity] = {}

    def validity(self, stream: str, version: int) -> Validity:
        """As of a version of the store. While that cannot be reached, as it was."""
        of = self._settings.streams.get(stream)
        if of is not None and of.publisher is not None:
            publisher = self._settings.publishers[of.publisher]
            path = str(publisher.schema_file.resolve())
            return Validity((path,), self._limits) if publisher.on_invalid == "reject" else ANYTHING
        with self._lock:
            if version != self._version:
                try:
                    self._known = self._load()
                    self._version = version
                except (TwigcastError, OSError) as error:
                    log.warning("the publishers stay as they were: %s", error)
            return self._known.get(stream, ANYTHING)

    def _load(self) -> dict[str, Validity]:
        paths: dict[str, list[str]] = {}
        free = set()
        for record in self._store.publishers():
            if record.on_invalid == "reject":
                paths.setdefault(record.stream, []).append(str(self._file(record)))
            else:
                free.add(record.stream)  # of another publisher of the stream a message may be anything
        return {stream: Validity(tuple(of), self._limits) for stream, of in paths.items() if stream not in free}

    def _file(self, record: PublisherRecord) -> Path:
        text = record.schema.encode()
        name = f"{hashlib.sha256(text).hexdigest()[:32]}.{record.schema_kind}"
        path = (self._settings.state.path / "schemas" / name).resolve()
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, text)
        return path
