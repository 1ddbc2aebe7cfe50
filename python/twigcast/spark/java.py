"""Finding a Java that Spark can run on, before Spark fails to with a page of shell errors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from twigcast.errors import OptionError

OLDEST = 17
"""Spark 4 is compiled for Java 17."""

INSTALL = (
    "install a Java runtime of version 17 or newer (for example the package openjdk-17-jre-headless), or set JAVA_HOME"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java executable and the version it reports."""

    path: Path
    version: str

    @property
    def major(self) -> int:
        # Until Java 8 the version read 1.8.0.
        numbers = [int(part) for part in re.findall(r"\d+", self.version)[:2]]
        return numbers[1] if len(numbers) > 1 and numbers[0] == 1 else numbers[0]


def find_java() -> Java:
    """The Java that Spark's launcher is going to use, or an :class:`OptionError` that says what to install."""
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home, "bin", "java")
        if not path.is_file():
            raise OptionError("java-missing", f"JAVA_HOME is {home}, but there is no {path}", hint=INSTALL)
    else:
        found = shutil.which("java")
        if found is None:
            raise OptionError("java-missing", "Spark needs Java, and there is no java on the PATH", hint=INSTALL)
        path = Path(found)
    java = Java(path, _version(path))
    if java.major < OLDEST:
        raise OptionError(
            "java-too-old", f"Spark needs Java {OLDEST} or newer; {path} is version {java.version}", hint=INSTALL
        )
    return java


def _version(path: Path) -> str:
    # Every JDK and JRE since 9 ships a `release` file; reading it spares a start of the JVM.
    try:
        text = (path.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    declared = re.search(r'^JAVA_VERSION="?([\d._]+)', text, re.MULTILINE)
    if declared:
        return declared[1]
    try:
        ran = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OptionError("java-missing", f"{path} does not run: {error}", hint=INSTALL) from error
    printed = re.search(r'version "([\d._]+)', ran.stderr + ran.stdout)
    if not printed:
        raise OptionError("java-missing", f"{path} -version does not name a version", hint=INSTALL)
    return printed[1]
