"""A Spark home without its copy of PySpark.

Spark puts ``python/lib/pyspark.zip`` of its home before all else on the path of Python workers. Out of an archive
Python keeps no compiled modules, so that each daemon, and each process that begins a stateful query, compiles PySpark
anew: four times the work, and the latter has ten seconds for it. The same PySpark is installed, for it started Spark;
so in a home of links to all else, workers find that one.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def lean_home(home: Path, folder: Path | None) -> Path:
    """A home of links in a cache folder, or the one given, where PySpark comes from elsewhere or there is no folder."""
    import pyspark

    if folder is None or Path(pyspark.__file__).resolve().parent != home.resolve():
        return home
    lean = folder / f"home-{hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]}"
    try:
        if not _is_of(lean, home):
            _make(lean, home)
        return lean if _is_of(lean, home) else home
    except OSError:
        return home


def _is_of(lean: Path, home: Path) -> bool:
    return all((lean / name).exists() and (lean / name).samefile(home / name) for name in ("bin", "jars"))


def _make(lean: Path, home: Path) -> None:
    fresh = Path(tempfile.mkdtemp(dir=lean.parent))
    for name in ("bin", "jars", "sbin", "data", "conf", "licenses"):
        if (home / name).exists():
            (fresh / name).symlink_to((home / name).resolve())
    with suppress(OSError):  # another start has made it meanwhile
        fresh.rename(lean)
    shutil.rmtree(fresh, ignore_errors=True)
