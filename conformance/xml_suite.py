"""The W3C XML conformance suite: its cases, what is expected of a reader such as ours, and a score table.

`python conformance/xml_suite.py` prints the table and every case that does not come out as the suite says.
`xml_exceptions.txt` lists those cases, each with its reason; `xml_test.py` fails when the list is too long or
too short.
"""

from __future__ import annotations

import contextlib
import tempfile
import xml.parsers.expat
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from twigcast import _kernel

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = ROOT.parent / "shared" / "data" / "xmlconf" / "xmlts20130923.zip"
CACHE = ROOT / ".cache" / "xmlconf"
EXCEPTIONS = Path(__file__).with_name("xml_exceptions.txt")


@dataclass(frozen=True)
class Case:
    """One TEST of the suite."""

    id: str
    type: str  # not-wf, valid, invalid, error
    path: Path
    output: Path | None  # canonical form of what a reader must report
    entities: str  # which external entities a reader must read: none, general, parameter, both
    editions: frozenset[str]  # editions of XML 1.0 that the case is about; empty for all
    is_11: bool  # about XML 1.1 or Namespaces 1.1
    namespaces: bool

    def verdict(self) -> tuple[str, str, int, int, int] | None:
        """None if the reader accepts the case, else its error."""
        return _kernel.validate(self.path.read_bytes())

    def as_expected(self) -> bool:
        """Is the case accepted or rejected as the suite says? An `error` may go either way."""
        if self.type == "error":
            return True
        return (self.verdict() is None) == (self.type != "not-wf")


# Why a case may come out differently, and when that can be true at all.
REASONS: dict[str, Callable[[Case], bool]] = {
    # Not for the 5th edition, which has wider names and takes any version 1.x.
    "other-edition": lambda case: bool(case.editions) and "5" not in case.editions,
    # For processors of XML 1.1 or Namespaces 1.1; ours reads every document by the rules of 1.0.
    "xml-1.1": lambda case: case.is_11,
    # The violation is in an external entity, and nothing external is ever opened.
    "external-entity": lambda case: case.type == "not-wf" and case.entities != "none",
    # Well-formed, but breaks Namespaces in XML, which ours always enforces.
    "not-namespace-well-formed": lambda case: case.type != "not-wf" and not case.namespaces,
}


def unpack() -> Path | None:
    """The suite, unpacked to the cache on first use; None where the archive is absent."""
    suite = CACHE / "xmlconf"
    if not suite.exists():
        if not ARCHIVE.exists():
            return None
        CACHE.mkdir(parents=True, exist_ok=True)
        # Unpacked aside and then renamed: test workers may do this at the same time.
        with tempfile.TemporaryDirectory(dir=CACHE) as aside, zipfile.ZipFile(ARCHIVE) as archive:
            archive.extractall(aside)
            with contextlib.suppress(OSError):
                (Path(aside) / "xmlconf").rename(suite)
    return suite


def cases() -> list[Case]:
    """Every TEST of the suite, in order; empty where the suite is absent."""
    suite = unpack()
    if suite is None:
        return []
    parser = etree.XMLParser(resolve_entities=True, load_dtd=True, no_network=True)
    tree = etree.parse(str(suite / "xmlconf.xml"), parser)
    return [_case(test) for test in tree.iter("TEST")]


def _case(test: etree._Element) -> Case:
    # The suite gives one list a wrong base.
    base = Path(str(test.base).replace("eduni/namespaces/misc", "eduni/misc"))
    folder = base if base.is_dir() else base.parent
    output = test.get("OUTPUT")
    return Case(
        id=test.get("ID", ""),
        type=test.get("TYPE", ""),
        path=folder / test.get("URI", ""),
        output=folder / output if output else None,
        entities=test.get("ENTITIES", "none"),
        editions=frozenset(test.get("EDITION", "").split()),
        is_11=test.get("VERSION") == "1.1" or test.get("RECOMMENDATION") in ("XML1.1", "NS1.1"),
        namespaces=test.get("NAMESPACE") != "no",
    )


def exceptions() -> dict[str, str]:
    """The checked-in list: id to reason."""
    lines = (line.split("#")[0].split() for line in EXCEPTIONS.read_text().splitlines())
    return {words[0]: words[1] for words in lines if words}


def canonical(data: bytes) -> list[object]:
    """The events of a document from its root element on, by expat; attributes without their order.

    The canonical forms of the suite have the processing instructions of the DTD before the root element, which
    are no part of the content and which our reader does not report.
    """
    events: list[object] = []

    def text(run: str) -> None:
        if events and isinstance(events[-1], str):
            events[-1] += run
        else:
            events.append(run)

    def start(name: str, attributes: dict[str, str]) -> None:
        events.append((_split(name), sorted((*_split(key), value) for key, value in attributes.items())))

    parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: events.append(None)
    parser.CharacterDataHandler = text
    parser.ProcessingInstructionHandler = lambda target, data: events.append(["pi", target, data]) if events else None
    parser.Parse(data, True)
    return events


def _split(name: str) -> tuple[str, str]:
    uri, _, local = name.rpartition(" ")
    return uri, local


def ours(data: bytes) -> list[object]:
    """The events of a document by our reader, in the form of `canonical`: it has no comments."""
    events: list[object] = []
    for event in _kernel.events(data):
        match event:
            case ("start", uri, local, attributes):
                events.append(((uri, local), sorted(attributes)))
            case ("end",):
                events.append(None)
            case ("pi", target, rest) if events:
                events.append(["pi", target, rest])
            case ("text", run) if events and isinstance(events[-1], str):
                events[-1] += run
            case ("text", run):
                events.append(run)
    return events


def table(all_cases: list[Case]) -> str:
    """How many cases of each type come out as the suite says."""
    listed = exceptions()
    counts: Counter[tuple[str, str]] = Counter()
    for case in all_cases:
        counts[case.type, "as expected" if case.as_expected() else listed.get(case.id, "UNEXPLAINED")] += 1
    types = sorted({kind for kind, _ in counts})
    columns = ["as expected", *REASONS, "UNEXPLAINED"]
    rows = [["type", *columns], *([kind, *(str(counts[kind, column]) for column in columns)] for kind in types)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main() -> None:
    """Prints the score table and the exceptions that the list would need."""
    all_cases = cases()
    if not all_cases:
        raise SystemExit(f"the suite is not here: {ARCHIVE}")
    for case in all_cases:
        if not case.as_expected():
            reason = next((name for name, holds in REASONS.items() if holds(case)), "UNEXPLAINED")
            print(case.id, reason)
    print(table(all_cases))


if __name__ == "__main__":
    main()
