"""``twigcast run --inbox … --outbox …``: the configuration of a pipeline, made of options and a file of subscriptions.

OUTBOX/matches/_/<date>/<stream>-<batch>-<id>.jsonl   deliveries: a directory sink with the layout "matches"
OUTBOX/_checkpoint/                                   the state folder, with the store and the configuration itself
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from twigcast import config
from twigcast.cli.queries import warn_of_never
from twigcast.engine.files import SubscriptionFile
from twigcast.subscription import as_object

INBOX = "inbox"
"""The name of the stream of a folder that is given without one."""
STORE = "subscriptions.db"


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of a run, and its subscriptions."""

    inboxes: Mapping[str, Path]
    """By the name of the stream."""
    outbox: Path
    subscriptions: SubscriptionFile
    namespaces: Mapping[str, str]

    @property
    def state(self) -> Path:
        return self.outbox.absolute() / "_checkpoint"

    @property
    def matches(self) -> Path:
        return self.outbox.absolute() / "matches"

    @property
    def file(self) -> Path:
        """The configuration, for ``twigcast status`` and ``twigcast dead``."""
        return self.state / "pipeline.toml"

    def configuration(self, *, lateness: float | None, limits: Mapping[str, int], **of_streams: Any) -> str:
        """Return the configuration as TOML. ``of_streams`` are settings of each stream; None stands for the default."""
        stream = {"source": "directory", "namespaces": dict(self.namespaces), **of_streams}
        sections: dict[str, Mapping[str, Any]] = {
            "store": {"url": f"sqlite:///{STORE}"},
            "state": {"path": "."},
            "subscriptions": {"pause_after": 0},
            "correlations": {"lateness": lateness},
            "limits": limits,
            "trigger": {"interval": "2 s"},
            **{
                f"streams.{json.dumps(name)}": {**stream, "path": str(path.absolute())}
                for name, path in self.inboxes.items()
            },
            "sinks.outbox": {"kind": "directory", "path": str(self.matches), "layout": "matches"},
        }
        lines = ["# Made by twigcast run --inbox, and made anew by each run."]
        for name, keys in sections.items():
            lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in keys.items() if value is not None)]
        return "\n".join(lines) + "\n"

    def settings(self, text: str) -> config.Pipeline:
        """Return the configuration of this text."""
        return config.parse(text, name="twigcast run --inbox", folder=self.state)

    def prepare(self, text: str) -> None:
        """Fill the store with the subscriptions. The state folder must be claimed."""
        from twigcast.delivery.files import replace
        from twigcast.store import Store, import_jsonl

        settings = self.settings(text)
        _adopt(settings, next(iter(self.inboxes)))
        for end in ("", "-wal", "-shm"):
            (self.state / f"{STORE}{end}").unlink(missing_ok=True)
        with Store.open(settings.store.url) as store:
            import_jsonl(store, self._lines(), name=self.subscriptions.name, allow_never=True)
        warn_of_never(self.subscriptions, self.namespaces)
        replace(self.file, text.encode())

    def _lines(self) -> Iterator[bytes]:
        """Yield the subscriptions as ``import`` reads them, each with the number of its line."""
        line = 0
        file = self.subscriptions
        for number, subscription in zip(file.lines, file.subscriptions, strict=True):
            while (line := line + 1) < number:
                yield b""
            fields = asdict(subscription)
            fields["namespaces"] = {**self.namespaces, **(subscription.namespaces or {})}
            yield json.dumps(as_object({name: value for name, value in fields.items() if value is not None})).encode()


def _toml(value: Any) -> str:
    """Return a value as TOML, in which ``${`` begins no variable."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(of)}" for key, of in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("\x7f", "\\u007f")


def _adopt(settings: config.Pipeline, stream: str) -> None:
    """Make a state folder of what ``run --inbox`` of an earlier version left, which was no pipeline.

    It had ``spark/``, the files that were read, and ``batch.json``, the last batch and the files to move into place.
    Results so far stay where they are. If this is interrupted it is done again.
    """
    from twigcast.delivery.files import make_folder, read_identity, read_record, write_record
    from twigcast.delivery.log import FORGOTTEN
    from twigcast.delivery.state import open_databases

    state = settings.state
    ledger, read = state.path / "batch.json", state.path / "spark"
    if not ledger.exists() and not read.exists():
        return
    done: dict[str, Any] = read_record(ledger) if ledger.exists() else {"batch": -1, "moves": []}
    for staged, final in done["moves"]:
        if (state.path.parent / staged).exists():
            (state.path.parent / staged).replace(state.path.parent / final)
    for database in open_databases(state.outbox, state.dead, {}):
        database.close()
    if read.exists():
        make_folder(state.checkpoints)
        read.rename(state.checkpoints / stream)
    make_folder(state.log / stream)
    record = {"batch": done["batch"], "sinks": [], "state": read_identity(state.path)}
    write_record(state.log / stream / FORGOTTEN, record)
    shutil.rmtree(state.path / "staging", ignore_errors=True)
    (state.path / "source.json").unlink(missing_ok=True)
    ledger.unlink(missing_ok=True)
