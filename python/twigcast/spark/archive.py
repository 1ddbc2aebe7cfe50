"""A class-data archive for the JVM: halves the start of a Spark session.

The JVM of one run writes the archive when it exits, which is after our own process has ended, so it is written under a
name of its own and adopted (by rename, hence atomically) by a later run. Without a writable cache folder there is no
archive, and nothing else changes; an archive that the JVM finds unfit is ignored by it.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

from twigcast.spark.java import Java

SETTLED = 5.0
"""Seconds since the last write before a candidate counts as complete."""


def cache_folder() -> Path | None:
    """The user's cache folder for Twigcast, or None where it cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "twigcast"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def archive_options(java: Java, spark_home: Path, folder: Path | None) -> list[str]:
    """JVM options that use the archive if there is one, or that make one if there is none."""
    # The JVM refuses to archive from a class path with folders in it, and a configuration folder is one.
    if folder is None or "SPARK_CONF_DIR" in os.environ or (spark_home / "conf").exists():
        return []
    stem = f"spark-{_key(java, spark_home)}"
    archive = folder / f"{stem}.jsa"
    try:
        _adopt(folder, stem, archive)
        if archive.exists():
            return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    except OSError:
        return []
    return [f"-XX:ArchiveClassesAtExit={folder / f'{stem}.{uuid.uuid4().hex}.new'}"]


def _key(java: Java, spark_home: Path) -> str:
    jars = spark_home / "jars"
    with suppress(OSError):
        stamp = jars.stat().st_mtime_ns
        return hashlib.sha256(f"{java.path.resolve()} {java.version} {jars} {stamp}".encode()).hexdigest()[:16]
    return "unknown"


def _adopt(folder: Path, stem: str, archive: Path) -> None:
    for candidate in sorted(folder.glob(f"{stem}.*.new")):
        # Another start may adopt or remove it at the same moment: either is fine.
        with suppress(OSError):
            if time.time() - candidate.stat().st_mtime < SETTLED:
                continue
            with candidate.open("rb") as file:
                complete = any(file.read(4))  # the JVM writes the header last
            if complete and not archive.exists():
                candidate.rename(archive)
            else:
                candidate.unlink()
