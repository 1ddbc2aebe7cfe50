"""Opening the delivery side of a state folder: outbox, dead letters and logs must belong together and be whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.files import read_identity, write_identity
from twigcast.delivery.log import Log
from twigcast.delivery.outbox import Outbox
from twigcast.errors import StateDamaged, TwigcastError

DEAD = "_dead"
"""The name, among those of sinks, of the worker that takes rejected messages to the dead letters."""


def open_databases(outbox: Path, dead: Path, logs: Mapping[str, Log]) -> tuple[Outbox, DeadLetters]:
    """Open a state folder's databases, after checking that they and the logs are whole and of one folder.

    A folder without ``identity.json`` is new, or was written by a version that had none: its id is recorded then.
    Raises :class:`StateDamaged`, which names the file.
    """
    folder = outbox.parent
    if read_identity(folder) is None and not outbox.exists():
        begun = any((folder / "checkpoints").glob("*/commits/*"))
        if begun or any(log.forgotten >= 0 for log in logs.values()):
            raise StateDamaged(outbox, "is missing")
    opened: list[Outbox | DeadLetters] = []
    try:
        queue = Outbox(outbox)
        opened.append(queue)
        letters = DeadLetters(dead)
        opened.append(letters)
        letters.database.adopt(queue.state)
        for database in (queue.database, letters.database):
            database.check()
            if database.state != queue.state:
                raise StateDamaged(database.path, "is not the one that belongs to this state folder")
        for log in logs.values():
            check_log(log, queue, letters)
        if read_identity(folder) is None:
            write_identity(folder, queue.state)
    except TwigcastError:
        for each in opened:
            each.close()
        raise
    return queue, letters


def check_log(log: Log, outbox: Outbox, dead: DeadLetters) -> None:
    """Raise :class:`StateDamaged` if a log is not whole, or if the log and the databases are not of one time."""
    log.check(outbox.state)
    cursors = {**outbox.cursors(log.stream), DEAD: dead.cursor(log.stream)}
    for sink, taken in cursors.items():
        if taken > log.last:
            raise StateDamaged(log.folder, f"ends with batch {log.last}, and {_name(sink)} has taken batch {taken}")
    for sink in log.passed_by:
        if cursors.get(sink, -1) < log.forgotten:
            path = dead.database.path if sink == DEAD else outbox.database.path
            raise StateDamaged(path, f"is older than the delivery log: it lacks progress of {_name(sink)}")


def _name(sink: str) -> str:
    return "the dead letters" if sink == DEAD else f"the sink {sink.removesuffix('/queue')!r}"
