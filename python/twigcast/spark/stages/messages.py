"""Checks of a DataFrame of messages when a stage is built: its kind, its columns, and the workers of its session."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from twigcast.errors import OptionError
from twigcast.spark.stages.shared import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

ANSWER_SECONDS = 60.0
_ASK = """
import importlib.util, sys
print("%d.%d" % sys.version_info[:2], int(importlib.util.find_spec("twigcast") is not None))
"""


def check_messages(messages: DataFrame, *columns: str) -> None:
    """Check that this is a DataFrame of Spark with these columns, whose workers can run a stage.

    Raises
    ------
    OptionError
        ``bad-messages``, ``no-such-column`` or ``worker-python``.
    """
    from pyspark.sql import DataFrame

    if not isinstance(messages, DataFrame):
        raise OptionError(
            "bad-messages",
            f"messages must be a DataFrame of Spark, not {type(messages).__module__}.{type(messages).__name__}",
            hint="spark.createDataFrame makes one",
        )
    for name in columns:
        if not isinstance(name, str) or name not in messages.columns:
            have = ", ".join(messages.columns)
            raise OptionError("no-such-column", f"the messages have no column {name!r}", hint=f"they have: {have}")
    check_workers(messages.sparkSession.sparkContext)


def check_workers(context: SparkContext) -> None:
    """Check that the Python of Spark's workers is of our version and has Twigcast. On a cluster this cannot be told."""
    if not is_local(context):
        return
    python = str(context.pythonExec)
    problem = None if _is_ours(python) else _problem(python, os.environ.get("PYTHONPATH", ""))
    if problem is not None:
        hint = f"set PYSPARK_PYTHON={sys.executable} in the environment before the session is started"
        raise OptionError("worker-python", f"the workers of this session run {python}, {problem}", hint=hint)


def _is_ours(python: str) -> bool:
    # Links are not followed: the Python of an environment is a link to one that lacks its packages.
    return Path(which(python) or python).absolute() == Path(sys.executable).absolute()


@lru_cache(maxsize=8)
def _problem(python: str, path: str) -> str | None:
    """Return what keeps a Python from running our stages. ``path`` is the PYTHONPATH, on which the answer depends."""
    ask = [python, "-c", _ASK]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True)
        version, has_twigcast = answer.stdout.split()
    except FileNotFoundError:
        return "which does not exist"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"which does not start: {error}"
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if has_twigcast != "1":
        return f"which has no twigcast (Python {version})"
    return None if version == own else f"which is Python {version}; the driver is Python {own}"
