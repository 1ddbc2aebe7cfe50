"""Jars that PySpark does not bring, by Maven into the user's cache folder: fetched once, then found there.

``python -m twigcast.spark.jars`` fetches Spark's connector for Kafka.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from twigcast.errors import OptionError, TwigcastError
from twigcast.spark.archive import cache_folder

logger = logging.getLogger(__name__)

TESTED = ("4.3.0", "4.2.0")
"""The versions of Spark and of its Kafka connector that the tests run together."""
_CONNECTOR = re.compile(r"spark-sql-kafka-0-10_[\d.]+[-:](\d[\w.]*?)(?:\.jar)?(?=,|$)")


class Jar(NamedTuple):
    """An artifact's coordinates. Not ``alone``: with everything that it depends on."""

    group: str
    name: str
    version: str
    alone: bool = False


def connector(spark: str, tokens: str) -> tuple[Jar, ...]:
    """Return the jars of a version of the connector, each without what PySpark brings already."""
    # Spark's own list of dependencies names a repository that not every network lets through.
    return (
        Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", spark, alone=True),
        Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", tokens, alone=True),
        Jar("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
        Jar("org.apache.commons", "commons-pool2", "2.12.1", alone=True),
    )


def kafka_connector() -> list[Path]:
    """Return the jars of Spark's connector for Kafka: the pair that is tested, or else Spark's own version.

    Any other pair is used with a warning.
    """
    import pyspark

    own = pyspark.__version__
    tested, others = connector(TESTED[1], "4.0.0"), connector(own, own)
    candidates = (tested,) if own == TESTED[0] else (others, tested)
    found = _connector(candidates)
    warn_of_connector(own, {"spark.jars": ",".join(path.name for path in found)})
    return found


def warn_of_connector(spark: str, options: Mapping[str, str]) -> None:
    """Warn if the settings of a session name a Kafka connector that the tests do not run with this version of Spark."""
    for name in ("spark.jars", "spark.jars.packages"):
        for version in _CONNECTOR.findall(options.get(name, "")):
            if (spark, version) != TESTED:
                text = "warning: the Kafka connector %s on Spark %s is not tested; the tests run %s on Spark %s"
                logger.warning(text, version, spark, TESTED[1], TESTED[0])


def _connector(candidates: Sequence[tuple[Jar, ...]]) -> list[Path]:
    for jars in candidates:
        if found := _cached(f"kafka-connector-{jars[0].version}"):
            return found
    failures = []
    for jars in candidates:
        try:
            return fetch(f"kafka-connector-{jars[0].version}", jars)
        except OptionError as error:
            failures.append(error.text)
    raise OptionError(
        "kafka-connector",
        f"a Kafka source needs Spark's connector, which cannot be fetched: {failures[0]}",
        hint='fetch it where there is a network, or set spark.options = {"spark.jars" = "…"} in the configuration',
    )


def fetch(name: str, jars: Sequence[Jar]) -> list[Path]:
    """The jars, from the cache or else by Maven; an :class:`OptionError` says why they are not to be had."""
    if found := _cached(name):
        return found
    cache = cache_folder()
    if cache is None:
        raise OptionError("no-cache", "there is no writable cache folder", hint="set XDG_CACHE_HOME")
    maven = shutil.which("mvn")
    if maven is None:
        raise OptionError("no-maven", "there is no mvn on the PATH", hint="install Apache Maven")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".jars-") as folder:
        Path(folder, "pom.xml").write_text(_pom(jars), encoding="utf-8")
        command = [
            maven,
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=jars",
        ]
        try:
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OptionError("no-maven", f"Maven did not run: {error}") from error
        if ran.returncode:
            lines = [line for line in (ran.stdout + ran.stderr).splitlines() if "ERROR" in line]
            raise OptionError("no-jars", f"Maven: {(lines or ['failed'])[0][:300]}")
        _adopt(Path(folder, "jars"), cache / name)
    return _cached(name)


def _adopt(fresh: Path, final: Path) -> None:
    try:
        fresh.rename(final)
    except OSError:
        if not final.is_dir():  # else another process was quicker
            raise


def _cached(name: str) -> list[Path]:
    cache = cache_folder()
    return sorted((cache / name).glob("*.jar")) if cache is not None else []


def _pom(jars: Sequence[Jar]) -> str:
    nothing = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.name}</artifactId>"
        f"<version>{jar.version}</version>{nothing if jar.alone else ''}</dependency>"
        for jar in jars
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>twigcast</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


if __name__ == "__main__":
    try:
        sys.stdout.write("".join(f"{path}\n" for path in kafka_connector()))
    except TwigcastError as problem:
        sys.exit(str(problem))
