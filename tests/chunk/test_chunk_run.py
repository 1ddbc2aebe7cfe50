"""Documents matched in parts: the same answers as in one piece, whatever the parts, the engine and the encoding."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from chunk_random import NAMES, NAMESPACES, Queries, document, schema, subscriptions
from chunk_reference import fragments as reference_fragments
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from twigcast.chunk.chunker import Chunker
from twigcast.chunk.prepare import prepare
from twigcast.chunk.run import Options, Report, match
from twigcast.chunk.scheme import Scheme
from twigcast.chunk.source import SourceError, blocks
from twigcast.engine import Engine, Subscription
from twigcast.engine.results import Selected
from twigcast.errors import MessageError, OptionError
from twigcast.lang.literals import LITERAL
from twigcast.limits import Limits
from twigcast.papers.chunk_lxml import fragments

SEEDS = st.integers(0, 2**32)


def pieces(data: bytes, size: int) -> Iterable[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def run(scheme: Scheme, xml: bytes, *, block: int = 1 << 20, plain: Scheme | None = None, **options: object) -> Report:
    schemes = {True: scheme, False: plain or scheme}
    return match(lambda: pieces(xml, block), schemes.__getitem__, Options(**options))  # type: ignore[arg-type]


def canonical(found: Iterable[Selected]) -> list[tuple[object, ...]]:
    return [(one.id, one.nodes, one.fragments and [*map(_c14n, one.fragments)], one.complete) for one in found]


def _c14n(xml: bytes) -> bytes:
    try:
        return etree.tostring(etree.fromstring(xml), method="c14n")
    except etree.XMLSyntaxError:
        return xml


def unchunked(subs: list[Subscription], xml: bytes) -> list[Selected]:
    engine = Engine(namespaces=NAMESPACES)
    engine.add_many(subs)
    return engine.select(xml)


def dressed(random: Random, xml: bytes) -> bytes:
    """The same document in another encoding, with a DTD, with comments and CDATA: what a reader has to see through."""
    kind = random.randrange(6)
    text = xml.decode()
    if kind == 0:
        return text.encode("utf-16")
    if kind == 1:
        return b"<?xml version='1.0' encoding='ISO-8859-1'?>" + text.encode("iso-8859-1", "xmlcharrefreplace")
    if kind == 2:
        root = etree.fromstring(xml)
        name = root.tag if isinstance(root.tag, str) and "{" not in root.tag else "x"
        return (
            b"<!DOCTYPE %s [<!ENTITY none ''><!ATTLIST %s added CDATA 'yes'>]>\n" % (name.encode(), name.encode()) + xml
        )
    if kind == 3:
        return b"\xef\xbb\xbf<!-- before -->\n<?pi x?>" + xml + b"\n<!-- after -->"
    return xml


def other(random: Random, literal: str) -> str:
    """Another literal of the same kind."""
    return f"{literal[0]}{random.choice('123xyz')}{literal[0]}" if literal[0] in "\"'" else random.choice("123")


def check(seed: int, *, results: bool) -> None:
    random = Random(seed)
    subs = subscriptions(Queries(random, NAMES, "a", steady=random.random() < 0.8), 8, results=results)
    xml = dressed(random, document(random))
    expected = canonical(unchunked(subs, xml))
    beside = random.choice(("potpourri", "filters"))
    scheme = prepare(subs, namespaces=NAMESPACES, chunks=random.randint(1, 4), beside=beside)
    batch = random.choice((1, 50, 200, 10_000))
    window = random.choice((1, 3, 17, 100, 10_000))
    block = random.choice((1, 7, 64, 10_000))
    report = run(scheme, xml, block=block, batch_bytes=batch, window=window)
    assert report.error is None
    assert not report.undecided
    assert canonical(report.answers) == expected, seed


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_matches_are_those_of_the_document_in_one_piece(seed: int) -> None:
    check(seed, results=False)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_subscriptions_of_known_shapes_are_taken_apart_as_the_first_was(seed: int) -> None:
    random = Random(seed)
    subs = []
    for one in subscriptions(Queries(random, NAMES, "a", steady=True), 4, results=False):
        for _ in range(6):
            subs.append(replace(one, id=len(subs), query=LITERAL.sub(lambda found: other(random, found[0]), one.query)))
    xml = document(random)
    scheme = prepare(subs, namespaces=NAMESPACES, chunks=random.randint(0, 3))
    for batch in (1, 100):
        report = run(scheme, xml, batch_bytes=batch, block=64)
        assert canonical(report.answers) == canonical(unchunked(subs, xml)), (seed, batch)


def test_expressions_of_one_shape_share_all_but_their_constants() -> None:
    subs = [Subscription(i, f'/db[h = "{i % 2}"]/r[a = -{i} and position() > 1]/b') for i in range(7)]
    subs += [Subscription(f"{one.id}", one.query) for one in subs]
    scheme = prepare(subs, chunks=0)
    groups = [group for chunk in scheme.fragments for group in chunk.groups if len(group.rows) > 1]
    assert sorted(len(group.rows) for group in groups) == [2, 7]
    texts = {one.query for one in scheme.potpourri.subscriptions}
    assert '/db/h[. = "1"]' in texts and "/db/r[a = -3 and position() >= 2]/b" in texts
    xml = b"<db><h>1</h><r/><r><a>-5</a><b/></r><r><a>-4</a><b/></r></db>"
    assert [one.id for one in run(scheme, xml).answers] == [5, "5"]


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_selected_nodes_are_too(seed: int) -> None:
    check(seed, results=True)


@pytest.mark.slow
@given(SEEDS, st.booleans())
@settings(max_examples=500, deadline=None)
def test_many(seed: int, results: bool) -> None:
    check(seed, results=results)
    check_too_large(seed)
    check_broken(seed)


def check_too_large(seed: int) -> None:
    """Whatever of a document may not be cut but is too large: what is told is right, and the rest undecided."""
    random = Random(seed)
    subs = subscriptions(Queries(random, NAMES, "a", steady=random.random() < 0.8), 8, results=random.random() < 0.3)
    xml = document(random)
    expected = canonical(unchunked(subs, xml))
    scheme = prepare(subs, namespaces=NAMESPACES, chunks=random.randint(0, 3))
    most = random.choice((100, 300, 1_000))
    block, window = random.choice((1, 7, 64, 10_000)), random.choice((1, 17, 10_000))
    options = {"limits": Limits(max_bytes=most), "batch_bytes": random.choice((1, 50, 200))}
    report = run(scheme, xml, block=block, window=window, jobs=random.randint(1, 2), **options)
    if report.error is not None:  # what goes with every part may be too large, too
        assert isinstance(report.error, MessageError) and report.error.code == "limit-size"
        return
    open = {one.id for one in report.undecided} | {one.id for one in report.answers if not one.complete}
    whole = [one for one in report.answers if one.complete]
    assert canonical(whole) == [one for one in expected if one[0] not in open], seed


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_what_is_too_large_to_be_whole_spoils_nothing_else(seed: int) -> None:
    check_too_large(seed)


def check_broken(seed: int) -> None:
    """What a subscription gets of a broken document is the same whatever others there are."""
    random = Random(seed)
    subs = subscriptions(Queries(random, NAMES, "a", steady=random.random() < 0.8), 6, results=False)
    xml = document(random)
    at = random.randrange(len(xml))
    xml = xml[:at] + random.choice((b"", b"<", b"</x>", b"&", b"<!--")) + random.choice((b"", xml[at:]))
    breaks_off = random.random() < 0.4

    def found(some: list[Subscription], *sizes: int) -> Report:
        batch, block, window, jobs = sizes

        def source() -> Iterable[bytes]:
            yield from pieces(xml, block)
            if breaks_off:
                raise SourceError("unreadable", "that is all")

        scheme = prepare(some, namespaces=NAMESPACES, chunks=2)
        return match(source, lambda _: scheme, Options(batch_bytes=batch, window=window, jobs=jobs))

    def sizes() -> tuple[int, ...]:
        batch, block = random.choice((1, 50, 200, 10_000)), random.choice((1, 7, 64, 10_000))
        return batch, block, random.choice((1, 17, 10_000)), random.randint(1, 2)

    together = found(subs, *sizes())
    for one in subs:
        alone = found([one], *sizes())
        if not breaks_off:
            assert repr(alone.error) == repr(together.error)
        assert [a.id for a in alone.answers] == [a.id for a in together.answers if a.id == one.id], (seed, one.query)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_of_a_broken_document_each_gets_the_same_alone(seed: int) -> None:
    check_broken(seed)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_a_schema_that_the_document_does_not_follow_is_not_relied_on(seed: int) -> None:
    random = Random(seed)
    dtd, names, documents = schema(random)
    subs = subscriptions(Queries(random, names[1:], "r", steady=True), 8, results=False)
    xml = random.choice([*documents, document(random)])
    scheme, plain = (
        prepare(subs, namespaces=NAMESPACES, chunks=3, schema=dtd),
        prepare(subs, namespaces=NAMESPACES, chunks=3),
    )
    report = run(scheme, xml, plain=plain, window=random.choice((5, 1000)), batch_bytes=100)
    assert canonical(report.answers) == canonical(unchunked(subs, xml))


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_fragments_are_those_of_the_reference(seed: int) -> None:
    random = Random(seed)
    subs = subscriptions(Queries(random, NAMES, "a", steady=True), 8)
    xml = document(random)
    scheme = prepare(
        subs, namespaces=NAMESPACES, chunks=random.randint(1, 4), beside=random.choice(("potpourri", "filters"))
    )
    made = {one.chunk: one for one in fragments(scheme, xml)}
    for wanted in reference_fragments(scheme, xml):
        one = made.pop(wanted.chunk)
        assert _c14n(one.xml) == _c14n(wanted.xml)
        for (here, there), offset in zip(one.runs[1:], one.offsets[1:], strict=True):
            assert here <= there
            assert xml[offset : offset + 1] == b"<"
    assert all(_is_bare(one.xml) for one in made.values())


def _is_bare(xml: bytes) -> bool:
    return len(etree.fromstring(xml)) == 0


DB = b"<db>\n" + b"".join(b"<s id='%d'><n>x%d</n></s>\n" % (i, i) for i in range(50)) + b"</db>"
SUBS = [
    Subscription(id, query)
    for id, query in enumerate(["/db/s[n = 'x5']", "/db/s[n = 'x45']", "//n", "not(/db/q)", "/db[s/n = 'x3']/s", "//q"])
]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_broken_document_gives_what_comes_before(jobs: int) -> None:
    at = DB.index(b"</s>", 700)
    broken = DB[:at] + b"</t>" + DB[at + 4 :]
    scheme = prepare(SUBS, chunks=2)
    whole = Engine()
    with pytest.raises(MessageError) as expected:
        whole.match(broken)
    report = run(scheme, broken, block=100, jobs=jobs, batch_bytes=100, window=20)
    assert isinstance(report.error, MessageError)
    assert vars(report.error) == vars(expected.value)
    assert [one.id for one in report.answers][:1] == [0]
    assert {1, 3, 5}.isdisjoint(one.id for one in report.answers)


@given(st.integers(0, len(DB) - 1), st.sampled_from([b"<", b"&", b"</s>", b"</db>", b"<s>", b"\xff", b"]]>", b"<!--"]))
@settings(max_examples=50, deadline=None)
def test_whatever_is_wrong_is_found_where_it_is(at: int, wrong: bytes) -> None:
    broken = DB[:at] + wrong + DB[at:]
    error = None
    try:
        Engine().match(broken)
    except MessageError as caught:
        error = vars(caught)
    report = run(prepare(SUBS, chunks=2), broken, block=64, batch_bytes=64, window=16)
    assert (report.error and vars(report.error)) == error


def test_units_inside_units_and_changing_sections() -> None:
    """End tags that are not those of units lead to wrong cuts, which are found and made good."""
    nested = b"<a>" + b"<r><x/><r><y>1</y></r><z/></r>" * 40 + b"</a>"
    sections = (
        b"<a>" + b"".join(b"<g%d>" % i + b"<r><y>%d</y></r>" % i * 10 + b"</g%d>" % i for i in range(20)) + b"</a>"
    )
    subs = [Subscription(i, q) for i, q in enumerate(["/a/r[x and z]", "/a/*/r[y = 19]", "/a/g7/r[y = 7]", "/a/r[y]"])]
    for xml in (nested, sections):
        expected = canonical(unchunked(subs, xml))
        for batch in (1, 40, 150, 1000):
            report = run(prepare(subs, namespaces=NAMESPACES, chunks=3), xml, block=33, batch_bytes=batch, window=10)
            assert canonical(report.answers) == expected


def test_a_part_that_is_too_large_leaves_its_subscriptions_undecided() -> None:
    subs = [*SUBS, Subscription("many", "count(//n) > 10"), Subscription("few", "count(//q) > 10 or /db/s")]
    report = run(prepare(subs, chunks=2), DB, batch_bytes=100, max_fragment=200)
    assert [(one.id, one.code) for one in report.undecided] == [("many", "fragment-too-large")]
    assert [one.id for one in report.answers] == [0, 1, 2, 3, 4, "few"]


def test_one_that_needs_all_of_the_document_is_found_in_a_part_or_undecided() -> None:
    """They all take the document element whole, which is too large; the others must not suffer."""
    queries = {"found": "//*[@id][n]", "unsure": "//*[n][q]", "value": "//*[. = 'x7']", "not": "//*[not(s)]"}
    subs = [*SUBS, *(Subscription(id, query) for id, query in queries.items())]
    for jobs in (1, 2):
        report = run(prepare(subs, chunks=2), DB, limits=Limits(max_bytes=400), batch_bytes=100, jobs=jobs)
        assert [one.id for one in report.answers] == [0, 1, 2, 3, 4, "found"]
        assert [(one.id, one.code) for one in report.undecided] == [
            (id, "fragment-too-large") for id in ("unsure", "value", "not")
        ]


ODD = b"<r><z/><!--</r>" + b"x" * 200 + b"--></r>"
"""An end tag that is none: a piece that ends there is cut anew, and so is all that follows it."""


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_what_was_cut_after_a_wrong_guess_says_nothing_of_what_is_cut_anew(jobs: int) -> None:
    scheme = prepare([Subscription("it", "/db/r[not(z)]")], chunks=1)
    start = b"<db>" + b"<r><z/></r>" * 20

    def breaks_off() -> Iterable[bytes]:
        yield from pieces(start + ODD + b"<r><y/></r><r><z/>", 50)
        raise SourceError("unreadable", "it breaks off")

    report = match(breaks_off, lambda _: scheme, Options(jobs=jobs, batch_bytes=100))
    assert report.error is not None
    assert [one.id for one in report.answers] == ["it"]
    options = {"batch_bytes": 100, "limits": Limits(max_bytes=2_000), "jobs": jobs}
    large = b"<r><z/>" + b"<q>a</q>" * 1_000 + b"</r>"
    for block in (50, 100_000):
        report = run(scheme, start + ODD + b"<r><y/></r>" + large + b"<r><z/></r></db>", block=block, **options)
        assert [one.id for one in report.answers] == ["it"]
        assert not report.undecided
        odd = b"<r><z/><!--</r><r><r>" + b"x" * 400 + b"--></r>"
        report = run(scheme, start + odd + b"<r><z/><s/></r>" * 2_000 + b"</db>", block=block, **options)
        assert not report.answers
        assert not report.undecided


def test_deep_documents_with_long_tags_take_no_more_time_than_others() -> None:
    """Each element takes the last one whole, and every part has the tags of all that are open."""
    deep = b"".join(b"<b k='%s'>" % (b"x" * 500) for _ in range(500))
    xml = b"<a>" + deep + b"<c>1</c>" * 200_000 + b"</b>" * 500 + b"</a>"
    subs = [Subscription(i, query) for i, query in enumerate(("//b[c = 2]", "//c", "//*[d]", "//b[not(c)]"))]
    report = run(prepare(subs, chunks=2), xml, limits=Limits(max_bytes=300_000))
    assert report.error is not None and "the tags of open elements" in str(report.error)
    report = run(prepare(subs, chunks=2), xml, limits=Limits(max_bytes=1_200_000))
    assert report.error is None
    assert [one.id for one in report.answers] == [1]


@pytest.mark.parametrize(
    ("query", "result"),
    [
        ("not(/db/s[n < @id])", "match"),
        ("/db/s[n >= @id]", "match"),
        ("/db/s[n >= @id]", "nodes"),
        ("/db/s[n >= @id]", "fragments"),
        ("//s[n < @id]/following::s", "nodes"),
    ],
)
def test_what_may_take_too_long_is_undecided(query: str, result: str) -> None:
    limits = Limits(max_query_steps=10)
    scheme = prepare([Subscription("q", query, result=result), *SUBS], chunks=2)
    report = run(scheme, DB, limits=limits, batch_bytes=100)
    assert [(one.id, one.code) for one in report.undecided] == [("q", "query-too-costly")]
    assert "the subscription" not in report.undecided[0].text
    assert [one.id for one in report.answers] == [0, 1, 2, 3, 4]


def test_complete_parts_of_a_broken_document_count_though_the_last_one_is_open() -> None:
    xml = b"<a><v><u><x/></u><u><x/></u><u><x/>"
    for queries in (["//u[not(y)]"], ["//u[not(y)]", "//v[q]"]):
        for batch in (1, 10_000):
            subs = [Subscription(i, query) for i, query in enumerate(queries)]
            assert [one.id for one in run(prepare(subs, chunks=2), xml, batch_bytes=batch).answers] == [0]


@pytest.mark.parametrize("cut", [30, len(DB) // 2, len(DB)])
def test_a_source_that_breaks_off_gives_what_comes_before(cut: int) -> None:
    """Even if it had given all of the document."""

    def source() -> Iterable[bytes]:
        yield from pieces(DB[:cut], 64)
        raise SourceError("unreadable", "that is all")

    for batch in (100, 10_000):
        report = match(source, lambda _: prepare(SUBS, chunks=2), Options(batch_bytes=batch))
        assert isinstance(report.error, SourceError)
        most = {30: [2], len(DB): [0, 1, 2, 4]}.get(cut, [0, 2, 4])
        assert [one.id for one in report.answers] == most


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_what_is_wrong_before_a_source_breaks_off_is_told_first(jobs: int) -> None:
    xml = b"<db>" + b"<r><z/></r>" * 40 + b"<r>&b </r>" + b"<r><z/></r>" * 10

    def breaks_off() -> Iterable[bytes]:
        yield from pieces(xml, 50)
        raise SourceError("unreadable", "it breaks off")

    scheme = prepare([Subscription("it", "/db/r[not(z)]")], chunks=1)
    report = match(breaks_off, lambda _: scheme, Options(jobs=jobs, batch_bytes=100))
    assert report.error is not None and report.error.code == "bad-reference"


def test_what_is_just_below_the_limit_is_not_too_large() -> None:
    small = b"<s><n>1</n></s>" * 2_000
    xml = b"<db>" + small + b"<s><n>2</n>" + b"y" * 90_000 + b"</s>" + small + b"</db>"
    subs = [Subscription(i, query) for i, query in enumerate(("/db/s[n = 2]", "/db/s[n = 4]", "//none"))]
    report = run(prepare(subs, chunks=2), xml, limits=Limits(max_bytes=100_000))
    assert [one.id for one in report.answers] == [0] and not report.undecided and report.error is None


@pytest.mark.parametrize("query", ["//*[local-name() = 's'][n]", "/db/*[local-name() = 's'] = 'x5'"])
def test_names_in_any_namespace(query: str) -> None:
    for beside in ("potpourri", "filters"):
        scheme = prepare(
            [Subscription(0, query), *(Subscription(s.query, s.query) for s in SUBS)], chunks=2, beside=beside
        )
        assert 0 in [one.id for one in run(scheme, DB, batch_bytes=100).answers]


@pytest.mark.parametrize("block", [100, 10_000])
@pytest.mark.parametrize("batch", [100, 10_000])
def test_a_document_may_not_be_a_byte_too_long(block: int, batch: int) -> None:
    for most in (500, len(DB) - 1, len(DB)):
        report = run(prepare(SUBS, chunks=2), DB, block=block, max_document=most, batch_bytes=batch)
        assert (report.error is None) == (most == len(DB))
        assert report.answers[0].id == 0


def test_a_limit_on_the_document() -> None:
    report = run(prepare(SUBS, chunks=2), DB, block=100, max_document=500, batch_bytes=100)
    assert isinstance(report.error, MessageError)
    assert report.error.code == "limit-size"
    assert [one.id for one in report.answers][:1] == [0]


def test_memory_is_bounded_by_the_window_not_by_the_document() -> None:
    chunker = Chunker(prepare(SUBS, chunks=2), batch_bytes=500)
    most = 0
    chunker.feed(b"<db>")
    for i in range(5_000):
        made = chunker.feed(b"<s id='%d'><n>x%d</n></s>\n" % (i, i) * 20)
        most = max([most, *(len(one.xml) for one in made if one.chunk)])
    assert 500 < most < 1_000


def test_compressed_files(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    half = len(DB) // 2
    files = {
        "plain.xml": DB,
        "members.gz": gzip.compress(DB[:half]) + gzip.compress(DB[half:]),
        "frames.zst": zstandard.compress(DB[:half]) + zstandard.compress(DB[half:]),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert b"".join(blocks(str(tmp_path / name), 100)) == DB
    for name in ("members.gz", "frames.zst"):
        (tmp_path / name).write_bytes(files[name][:-10])
        report = match(lambda name=name: blocks(str(tmp_path / name), 100), lambda _: prepare(SUBS, chunks=2))
        # The library does not tell that a Zstandard frame is cut short: then the document lacks its end.
        assert isinstance(report.error, SourceError if name.endswith(".gz") else MessageError)
    with pytest.raises(SourceError):
        list(blocks(str(tmp_path / "none")))


def test_what_comes_before_compressed_data_break_off_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    data = gzip.compress(DB * 50)
    path.write_bytes(data[: len(data) // 2])
    read = b""
    with pytest.raises(SourceError):
        for block in blocks(str(path)):
            read += block
    assert (DB * 50).startswith(read) and len(read) > len(DB)


def test_fragments_of_a_broken_document_are_an_error() -> None:
    with pytest.raises(MessageError):
        list(fragments(prepare(SUBS, chunks=2), DB[:-3]))
    dtd = schema(Random(1))[0]
    with pytest.raises(OptionError):
        list(fragments(prepare(SUBS, chunks=2, schema=dtd), DB))


def test_residual_subscriptions_of_one_shape_keep_their_own_constants() -> None:
    xml = b"<db>" + b"".join(b"<s><n>x%d</n><m>y%d</m></s>" % (i, i) for i in range(0, 60, 2)) + b"</db>"
    shapes = [
        "/db/s[n = following-sibling::m or m = 'y{}']",
        "//s[n = 'x{}'][m != following-sibling::m or m]",
        "not(//s[m/preceding-sibling::n = 'x{}'])",
        "//s[m/preceding::n = 'x{}']",
    ]
    queries = [Subscription(i, shapes[i % 4].format(i)) for i in range(60)]
    engine = Engine()
    engine.add_many(queries)
    report = run(prepare(queries, chunks=2), xml, batch_bytes=200)
    assert not report.undecided
    assert sorted(one.id for one in report.answers) == engine.match(xml)


@pytest.mark.parametrize(
    "constants",
    [['"v1"', '"v2"', '"v3"', "100", "200"], ["1", "2", "3", '"x"', '"y"']],
)
def test_strings_and_numbers_at_the_same_place_are_different_shapes(constants: list[str]) -> None:
    subscriptions = [Subscription(i, f"//b[@k = {constant}]") for i, constant in enumerate(constants)]
    engine = Engine()
    engine.add_many(subscriptions)
    for value in ("0", "200", "v2", "1", "y"):
        xml = f"<r><b k='{value}'/></r>".encode()
        report = match(lambda xml=xml: [xml], lambda _: prepare(subscriptions, chunks=1))  # type: ignore[misc]
        assert [answer.id for answer in report.answers] == engine.match(xml)
