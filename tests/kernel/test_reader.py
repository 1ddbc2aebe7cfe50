"""The reader as Python sees it: verdicts, limits, hostile messages."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from twigcast import Limits, _kernel

MALICIOUS = Path(__file__).resolve().parents[3] / "shared" / "data" / "malicious" / "defusedxml"


def code(data: bytes, **limits: int) -> str | None:
    error = _kernel.validate(data, limits)
    return error and error[0]


def bomb(levels: int, text: str, use: str) -> bytes:
    """Entities that each hold ten of the one before."""
    entities = "".join(f"<!ENTITY e{i} '{f'&e{i - 1};' * 10}'>" for i in range(1, levels))
    return f"<!DOCTYPE r [<!ENTITY e0 '{text}'>{entities}]>{use.replace('&e;', f'&e{levels - 1};')}".encode()


# Messages built to cost much more than their size: name, bytes, expected code.
HOSTILE: list[tuple[str, bytes, str | None]] = [
    ("laughs", bomb(12, "x", "<r>&e;</r>"), "limit-expansion"),
    ("laughs in an attribute", bomb(12, "x", "<r a='&e;'/>"), "limit-expansion"),
    ("empty laughs", bomb(15, "", "<r>&e;</r>"), "limit-expansion"),
    ("nested too deep", bomb(40, "x", "<r>&e;</r>"), "limit-entity-depth"),
    ("quadratic", b"<!DOCTYPE r [<!ENTITY e '%s'>]><r>%s</r>" % (b"x" * 50_000, b"&e;" * 50_000), "limit-expansion"),
    ("many references", b"<!DOCTYPE r [<!ENTITY e ''>]><r>%s</r>" % (b"&e;x" * 2_000_000), None),
    (
        "defaults",
        b"<!DOCTYPE r [<!ATTLIST a b CDATA '%s'>]><r>%s</r>" % (b"x" * 9_000, b"<a/>" * 9_000),
        "limit-expansion",
    ),
    (
        "many attributes declared",
        b"<!DOCTYPE r [<!ATTLIST a %s>]><r>%s</r>"
        % (b"".join(b"b%d ID #IMPLIED " % i for i in range(100_000)), b"<a/>" * 300_000),
        None,
    ),
    ("deep", b"<a>" * 1_000_000, "limit-depth"),
    ("attributes", b"<a %s/>" % b" ".join(b"b%d=''" % i for i in range(1_000_000)), "limit-attributes"),
    ("long name", b"<%s/>" % (b"a" * 10_000_000), "limit-name"),
    (
        "namespaces",
        b"<r>%s%s</r>"
        % (
            b"".join(b"<a %s>" % b" ".join(b"xmlns:p%d='u'" % (i * 500 + k) for k in range(500)) for i in range(200)),
            b"<p0:x/>" * 200_000 + b"</a>" * 200,
        ),
        None,
    ),
    ("groups", b"<!DOCTYPE r [<!ELEMENT r %sa%s>]><r/>" % (b"(" * 2_000_000, b")" * 2_000_000), None),
    ("comments", b"<!---->" * 1_000_000 + b"<r/>", None),
    ("open brackets", b"<r>%s" % (b"<![CDATA[" * 1_000_000), "bad-cdata"),
    ("cdata ends", b"<r><![CDATA[%s]]></r>" % (b"]] " * 3_000_000), None),
    ("ampersands", b"<r>%s</r>" % (b"&amp;" * 2_000_000), None),
    ("parameter entities", b"<!DOCTYPE r [%s]><r/>" % (b"%p;" * 2_000_000), None),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_messages_are_handled_in_time(data: bytes, expected: str | None) -> None:
    start = time.process_time()
    assert code(data) == expected
    # Linear work: generous, for a loaded machine.
    assert time.process_time() - start < 2 + len(data) / 5e6
    assert code(b"<next/>") is None


def test_hostile_messages_are_handled_in_bounded_memory() -> None:
    """In a process of its own, whose peak then is the peak of these messages."""
    script = (
        "import resource, sys; sys.path[:0] = sys.argv[1:]\n"
        "import test_reader\n"
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for _, data, _ in test_reader.HOSTILE: test_reader._kernel.validate(data)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)\n"
    )
    here = Path(__file__).resolve()
    paths = [str(here.parent), str(here.parents[2] / "python")]
    grown = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True)
    assert int(grown.stdout) < 300_000, "kilobytes"


@pytest.mark.skipif(not MALICIOUS.exists(), reason="../shared/data/malicious is absent")
def test_known_attacks_are_refused_or_harmless() -> None:
    verdicts = {path.name: code(path.read_bytes()) for path in MALICIOUS.glob("*.xml")}
    assert verdicts == {
        "cyclic.xml": "recursive-entity",
        "dtd.xml": None,
        "external.xml": None,  # nothing external is opened
        "external_file.xml": None,
        "quadratic.xml": "limit-expansion",
        "simple-ns.xml": None,
        "simple.xml": None,
        "xmlbomb.xml": None,  # a small one: it expands to a few kilobytes
        "xmlbomb2.xml": None,
    }


def test_an_error_says_what_and_where() -> None:
    assert _kernel.validate(b"<a/>") is None
    message = "end tag </b> does not match start tag <a> opened at 1:1"
    assert _kernel.validate(b"<a>\n </b>") == ("mismatched-tag", message, 2, 2, 5)
    assert _kernel.events(b"<a>\n </b>") == _kernel.validate(b"<a>\n </b>")


def test_limits_are_settable_and_checked() -> None:
    assert code(b"<a><b/></a>", max_depth=1) == "limit-depth"
    assert code(b"<a>" * 5000 + b"</a>" * 5000, max_depth=5000) is None
    with pytest.raises(KeyError, match="unknown limit max_deep"):
        code(b"<a/>", max_deep=1)
    with pytest.raises(OverflowError):
        code(b"<a/>", max_depth=2**32)


def test_codes_are_unique_kebab_case_and_explained() -> None:
    codes = _kernel.error_codes()
    assert len({name for name, _ in codes}) == len(codes)
    assert all(name.replace("-", "").isalnum() and name == name.lower() and means for name, means in codes)


def test_parse_only_counts_elements_and_skips_what_is_wrong() -> None:
    assert _kernel.parse_only([b"<a><b/></a>", b"<a>", b"<c/>"], Limits().as_dict()) == 4
    with pytest.raises(TypeError):
        _kernel.parse_only(["<a/>"], Limits().as_dict())  # type: ignore[list-item]
