"""No parser but the kernel gets a message as it came: see `twigcast/schema/libxml2.py`."""

from __future__ import annotations

import re
from pathlib import Path

import twigcast

PARSERS = re.compile(
    r"\bexpat\b|XMLParser\(|etree\.DTD\(|minidom|ElementTree as|\bsax\.(?!saxutils)|iterparse|PullParser"
)
READS = re.compile(r"etree\.(?:fromstring|parse|XML)\((?!.*libxml2\.parser\()")


def test_only_one_module_makes_parsers() -> None:
    package = Path(twigcast.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        if path.name != "libxml2.py"
        for line in path.read_text().splitlines()
        if PARSERS.search(line) or READS.search(line)
    ]
    assert not found, "use twigcast.schema.libxml2"
