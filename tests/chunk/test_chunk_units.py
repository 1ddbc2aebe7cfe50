"""Units of a document that are read lightly, by paths and values alone: no match may be missed that a whole reading
finds. Records have few matches each, so that most are not read any closer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twigcast.chunk.prepare import prepare
from twigcast.chunk.run import Options, match
from twigcast.engine import Engine, Subscription

SEEDS = st.integers(0, 2**32)
NAMES = ("a", "b", "c", "d")
NUMBERS = ("1", "2", "30", "-4", "5.5", " 7 ", "x", "", "1e3")


def value(random: Random) -> str:
    return random.choice(NUMBERS) if random.random() < 0.5 else f"v{random.randrange(40)}"


def attributes(random: Random) -> str:
    names = random.sample(NAMES, random.choice((0, 0, 1, 2)))
    return "".join(f' {name}="{value(random)}"' for name in names)


def text(random: Random) -> str:
    """A value as it may be written."""
    plain = value(random)
    kind = random.randrange(8)
    if kind == 0:
        return f"<![CDATA[{plain}]]>"
    if kind == 1:
        return "".join(f"&#{ord(c)};" for c in plain)
    if kind == 2:
        return f"{plain[:1]}<!-- -->{plain[1:]}"
    return plain


def element(random: Random, depth: int, name: str | None = None) -> str:
    name = name or random.choice(NAMES)
    inside = text(random)
    if depth and random.random() < 0.4:
        inside = "".join(element(random, depth - 1) for _ in range(random.randint(1, 3)))
        if random.random() < 0.2:
            inside += text(random)
    return f"<{name}{attributes(random)}>{inside}</{name}>"


def record(random: Random) -> str:
    inside = "".join(element(random, 2) for _ in range(random.randint(0, 4)))
    if random.random() < 0.1:
        inside += f"<r{attributes(random)}>{element(random, 1)}</r>"
    return f"<r{attributes(random)}>{inside}</r>\n"


def document(random: Random, records: int) -> bytes:
    return f"<db{attributes(random)}>\n{''.join(record(random) for _ in range(records))}</db>".encode()


def condition(random: Random, depth: int = 2) -> str:
    kind = random.randrange(14)
    path = random.choice(("", "", ".//")) + random.choice((*NAMES, *(f"@{n}" for n in NAMES), "*", "a/b", "b/@c", "r"))
    if kind < 4:
        return f"{path} = 'v{random.randrange(40)}'"
    if kind < 6:
        return f"{path} {random.choice(('<', '<=', '>', '>=', '=', '!='))} {random.choice((1, 2, 30, -4, 5.5, 7, 999))}"
    if kind < 8:
        return f"not({path})"
    if kind == 8:
        return f"{path} != 'v{random.randrange(40)}'"
    if kind == 9:
        return f". = 'v{random.randrange(40)}'" if random.random() < 0.5 else f"text() = 'v{random.randrange(40)}'"
    if kind == 10:
        return f"contains({path}, 'v{random.randrange(40)}')"
    if not depth:
        return path
    if kind == 11:
        return f"{path}[{condition(random, depth - 1)}]"
    if kind == 12:
        return f"not({condition(random, depth - 1)})"
    return f"({condition(random, depth - 1)} {random.choice(('or', 'and'))} {condition(random, depth - 1)})"


def query(random: Random) -> str:
    conditions = " and ".join(condition(random) for _ in range(random.randint(1, 3)))
    start = random.choice(("/db/r", "//r", "/db/r", f"//{random.choice(NAMES)}", "/db/*"))
    end = random.choice(("", "", f"/{random.choice(NAMES)}", f"//{random.choice(NAMES)}[{condition(random, 0)}]"))
    return f"{start}[{conditions}]{end}"


def check(seed: int) -> None:
    random = Random(seed)
    xml = document(random, random.choice((3, 40, 150)))
    subs = [Subscription(i, query(random)) for i in range(random.choice((1, 4, 30)))]
    engine = Engine()
    engine.add_many(subs)
    expected = engine.match(xml)
    scheme = prepare(subs, chunks=random.randint(0, 3))
    size = random.choice((100, 1_000, 100_000))
    report = match(lambda: [xml], lambda _: scheme, Options(jobs=random.randint(1, 2), batch_bytes=size))
    assert report.error is None and not report.undecided
    assert [one.id for one in report.answers] == expected, seed


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_units_match_as_the_document_does(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@given(SEEDS)
@settings(max_examples=5_000, deadline=None)
def test_many_units_do(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize(
    ("query", "last"),
    [
        ("/db/r[not(a)]", "<r a='1'/>"),
        ("/db/r[not(a)]", "<r a='1'><b/></r>"),
        ("/db/r[not(@a)]", "<r><a/><b/></r>"),
        ("//r[b = 'y' and a > 3 and c = 'z']", "<r a='1'><b>y</b><a>4</a><c>z</c></r>"),
        ("//r[b = 'y' and a < 3 and c = 'z']", "<r a='1'><b>y</b><a>4</a><a>2</a><c>q</c><c>z</c></r>"),
        ("//r[b = 'y'][not(a) or c = 'z']", "<r a='1'><b>y</b><a/><c>z</c></r>"),
    ],
)
def test_the_one_record_that_matches_is_found_after_many_that_do_not(query: str, last: str) -> None:
    others = "".join(f"<r a='1'><a>{i % 9}</a><b>{'xy'[i % 2]}</b><c>{i}</c></r>" for i in range(500))
    others = others.replace("<a>4</a>", "<a>3</a>")
    none = (f"//r[b = 'y' and c = 'none'] | {query}[never]", "/db/r[not(b) and not(c)][not(@a)]")
    subs = [Subscription("it", query), *(Subscription(one, one) for one in none)]
    for end, expected in ((last, ["it"]), ("", [])):
        xml = f"<db>{others}{end}{others}</db>".encode()
        scheme = prepare(subs, chunks=2)
        report = match(lambda xml=xml: [xml], lambda _, scheme=scheme: scheme)
        assert [one.id for one in report.answers] == expected


def test_text_that_many_elements_have_around_it_is_not_read_for_each() -> None:
    others = "<r><a>1</a><b>y</b></r>" * 50
    deep = "<r>" + "<a>" * 1_000 + "&#49;" * 400_000 + "</a>" * 1_000 + "<b>y</b><c>z</c></r>"
    subs = [Subscription(i, q) for i, q in enumerate(("//a[. = 'q' or b = 'y']", "/db/r[b = 'y' and c = 'z']"))]
    scheme = prepare(subs, chunks=1)
    report = match(lambda: [f"<db>{others}{deep}{others}</db>".encode()], lambda _: scheme)
    assert [one.id for one in report.answers] == [1]
