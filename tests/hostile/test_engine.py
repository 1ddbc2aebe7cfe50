"""Messages made to do harm: refused or handled, memory bounded, and the next message is matched as ever."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from twigcast import Engine, Limits, MessageError, Subscription

QUERIES = ["//a", "/a/b", "//a//b//a", "//*/b/*", "//b/@a", "//a/text()", "/never"]
NEXT = b"<a><b a='1'><a>t</a></b></a>"
NEXT_IDS = [0, 1, 2, 3, 4, 5]


def engine(**limits: int) -> Engine:
    e = Engine(limits=Limits(**limits))
    e.add_many(Subscription(i, q) for i, q in enumerate(QUERIES))
    return e


def nested(names: str, depth: int) -> bytes:
    tags = [names[i % len(names)] for i in range(depth)]
    return "".join([*(f"<{t}>" for t in tags), *(f"</{t}>" for t in reversed(tags))]).encode()


def test_a_hundred_thousand_levels_are_refused() -> None:
    e = engine()
    with pytest.raises(MessageError) as caught:
        e.match(nested("a", 100_000))
    assert caught.value.code == "limit-depth"
    assert e.match(NEXT) == NEXT_IDS


@pytest.mark.parametrize("names", ["a", "ab", "abcdefghij", "xyz"])
@pytest.mark.parametrize("late", [False, True])
def test_a_hundred_thousand_levels_are_matched_where_the_limit_allows(names: str, late: bool) -> None:
    """In time proportional to the depth, also while a path added late is not in the automaton yet."""
    e = engine(max_depth=200_000)
    if late:
        assert e.match(NEXT) == NEXT_IDS
        e.add("//a/b/a", id="late")
        e.match(b"<a/>")
    began = time.process_time()
    found = e.match(nested(names, 100_000))
    took = time.process_time() - began
    assert (0 in found) == ("a" in names) and (2 in found) == (names == "ab" or len(names) == 10)
    assert took < 10, f"{took:.1f} s"
    assert e.match(NEXT) == ([*NEXT_IDS, "late"] if late else NEXT_IDS)


PATHS = """
import resource, sys, time
from random import Random
from twigcast import Engine, Subscription

cache = 8 << 20
names = [f"n{i}" for i in range(60)]
e = Engine(cache_bytes=cache)
random = Random(1)
queries = {"".join(random.choice(("/", "/", "//")) + random.choice((*names, "*")) for _ in range(random.randint(1, 5)))
           for _ in range(2000)}
e.add_many(Subscription(i, q) for i, q in enumerate(sorted(queries)))
if sys.argv[1] == "late":
    e.match(b"<n0/>")
    e.add_many(Subscription(f"late{i}", q + "/n1//n2") for i, q in enumerate(sorted(queries)[:200]))
calm = b"<n0><n1><n2/></n1><n3><n4/></n3></n0>"
expected = e.match(calm)

def messages():
    for m in range(250):
        out = ["<n0>"]
        for _ in range(700):
            tags = [random.choice(names) for _ in range(6)]
            out += [f"<{t}>" for t in tags] + [f"</{t}>" for t in reversed(tags)]
        yield "".join(out + ["</n0>"]).encode()

start = None
elements = 0
for i, xml in enumerate(messages()):
    e.match(xml)
    elements += 4201
    if i == 10:
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if i % 50 == 0:
        assert e.match(calm) == expected
assert elements > 10**6
growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) << 10
assert e.match(calm) == expected
assert e.kernel.stats()[4] <= 1.5 * cache, e.kernel.stats()
print(growth)
"""


@pytest.mark.parametrize("when", ["early", "late"])
def test_a_million_distinct_tag_paths_do_not_outgrow_the_cache(when: str) -> None:
    """Of known names, so that each is a path of its own; measured in a process of its own."""
    run = subprocess.run([sys.executable, "-c", PATHS, when], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 40 << 20


def test_a_million_distinct_tag_paths_cost_nothing_where_no_name_is_known() -> None:
    """Names that no subscription mentions are all one name."""
    e = engine(max_bytes=200 << 20)
    before = e.match(NEXT)
    random = Random(2)
    nodes = []
    for m in range(4):
        names = [f"u{m}-{random.getrandbits(60):x}" for _ in range(250_000)]
        e.match(("<r>" + "".join(f"<{n} {n}='1'/>" for n in names) + "</r>").encode())
        nodes.append(e.kernel.stats()[3])
    assert nodes[0] == nodes[-1] < 50
    assert e.match(NEXT) == before == NEXT_IDS


def test_the_bombs_are_refused_or_small(shared_data: Path) -> None:
    e = engine()
    files = sorted((shared_data / "malicious").rglob("*.xml"))
    assert files
    for file in files:
        began = time.process_time()
        try:
            found = e.match(file.read_bytes())
            assert found == [], "none of them has an element that is asked for"
        except MessageError as error:
            assert error.line >= 1 and error.code
        assert time.process_time() - began < 2
        assert e.match(NEXT) == NEXT_IDS


@pytest.mark.parametrize(
    "xml",
    [
        b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'>"
        + b"".join(b"<!ENTITY a%d '%s'>" % (i, b"&a%s;" % (b"%d" % (i - 1) if i else b"") * 10) for i in range(10))
        + b"]><a>&a9;</a>",
        b"<!DOCTYPE a [<!ENTITY e '" + b"<b/>" * 10_000 + b"'>]><a>" + b"&e;" * 100_000 + b"</a>",
        b"<!DOCTYPE a [<!ENTITY e '&f;'><!ENTITY f '&e;'>]><a>&e;</a>",
        b"<!DOCTYPE a [<!ENTITY e '" + b"x" * 100_000 + b"'>]><a a='" + b"&e;" * 100_000 + b"'/>",
    ],
    ids=["laughs", "quadratic", "cyclic", "attribute"],
)
def test_bombs_of_every_kind_are_refused(xml: bytes) -> None:
    e = engine()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    with pytest.raises(MessageError):
        e.match(xml)
    assert time.process_time() - began < 5
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 200 << 10
    assert e.match(NEXT) == NEXT_IDS


@pytest.mark.parametrize(
    ("xml", "code"),
    [
        (b"<a " + b" ".join(b"a%d=''" % i for i in range(2000)) + b"/>", "limit-attributes"),
        (b"<" + b"a" * 9000 + b"/>", "limit-name"),
        (b"<a>" + b" " * (64 << 20) + b"</a>", "limit-size"),
    ],
    ids=["attributes", "name", "size"],
)
def test_every_limit_refuses(xml: bytes, code: str) -> None:
    e = engine()
    with pytest.raises(MessageError) as caught:
        e.match(xml)
    assert caught.value.code == code
    assert e.match(NEXT) == NEXT_IDS
