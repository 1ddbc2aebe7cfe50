"""The engine as its callers see it: ids, refusals in words, batches of every Arrow type, slices."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from twigcast import Engine, Limits, MessageError, OptionError, QueryError, Subscription


def batch(xml: Any, type: pa.DataType | None = None) -> pa.RecordBatch:
    column = xml if isinstance(xml, pa.Array) else pa.array(xml, type)
    return pa.record_batch({"id": pa.array(range(len(column)), pa.int64()), "xml": column})


def engine(*queries: str, **options: Any) -> Engine:
    e = Engine(**options)
    e.add_many(Subscription(i, q) for i, q in enumerate(queries))
    return e


def rows(result: pa.RecordBatch) -> list[list[int]]:
    found: list[list[int]] = result.column("matches").to_pylist()
    return found


# ---- ids -------------------------------------------------------------------------------------------------------------


def test_ids_are_given_or_counted() -> None:
    e = Engine()
    assert [e.add("/a"), e.add("/a", id="x"), e.add("/b", id=2), e.add("/a")] == [1, "x", 2, 3]
    assert e.match(b"<a/>") == [1, "x", 3]
    assert len(e) == 4 and "x" in e and 2 in e and "y" not in e
    assert e.ids.to_pylist() == ["1", "x", "2", "3"]


def test_ids_that_are_all_numbers_stay_numbers() -> None:
    e = engine("/a", "/b", "/c")
    e.remove(1)
    assert e.ids.type == pa.int64()
    assert e.ids.to_pylist() == [0, None, 2]


@pytest.mark.parametrize("id", [1.5, True, b"x", [1], (1,), 2**63, -(2**63) - 1, "\ud800"])
def test_other_ids_are_refused(id: Any) -> None:
    e = Engine()
    with pytest.raises(OptionError) as caught:
        e.add("/a", id=id)
    assert caught.value.code == "bad-id"
    assert len(e) == 0
    with pytest.raises(OptionError) as caught:
        e.remove(id)
    assert caught.value.code == "unknown-subscription"


def test_true_is_not_one() -> None:
    e = Engine()
    e.add("/a", id=1)
    with pytest.raises(OptionError):
        e.remove(True)
    assert 1 in e


def test_an_id_is_free_again_once_its_subscription_is_gone() -> None:
    e = engine("/a", "/b")
    e.remove(0)
    e.add("/c", id=0)
    assert (e.match(b"<a/>"), e.match(b"<b/>"), e.match(b"<c/>")) == ([], [1], [0])


@pytest.mark.parametrize("bad", [Subscription(7, "/b["), Subscription(0, "/b"), Subscription(1.5, "/b")])  # type: ignore[arg-type]
def test_many_are_added_all_or_none(bad: Subscription) -> None:
    e = engine("/a")
    with pytest.raises((QueryError, OptionError)):
        e.add_many([Subscription(5, "/a"), bad, Subscription(6, "/a")])
    assert len(e) == 1 and 5 not in e
    assert e.match(b"<a/>") == [0]
    with pytest.raises(OptionError) as caught:
        e.add_many([Subscription(9, "/a"), Subscription(9, "/b")])
    assert caught.value.code == "duplicate-id"
    e.add_many([])
    assert len(e) == 1


# ---- subscriptions come and go ---------------------------------------------------------------------------------------


def test_removing_one_of_equal_paths_leaves_the_others() -> None:
    e = engine("//a", "//a", "//a/b")
    xml = b"<r><a><b/></a></r>"
    for _ in range(7):
        assert e.match(xml) == [0, 1, 2]
    e.remove(0)
    assert e.match(xml) == [1, 2]
    e.remove(1)
    assert e.match(xml) == [2]
    e.remove(2)
    assert e.match(xml) == []
    e.add("//a")
    assert e.match(xml) == [1]


def test_churn_for_a_long_time() -> None:
    """Thousands of paths come and go, so that numbers are used again and indexes are built anew."""
    e = Engine()
    xml = b"<r><a0/><a7><b/></a7></r>"
    for i in range(6000):
        e.add(f"/r/a{i % 3000}//b" if i % 2 else f"//a{i % 3000}", id=i)
        if i >= 1500:
            e.remove(i - 1500)
        if i % 97 == 0:
            live = range(max(0, i - 1499), i + 1)
            true = [j for j in live if j % 3000 == (0 if j % 2 == 0 else 7)]
            assert sorted(e.match(xml)) == true  # type: ignore[type-var]
    assert len(e) == 1500


# ---- queries and messages that cannot be taken -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "under"), [("/a[b", "["), ("/a/b[$c = 1]", "$c"), ("/z:a", "z"), ("/a/foo::b", "foo"), ("/a b", "b")]
)
def test_a_bad_query_is_shown_with_a_caret(query: str, under: str) -> None:
    with pytest.raises(QueryError) as caught:
        Engine().add(query)
    error = caught.value
    assert error.source == query and error.span is not None
    lines = str(error).splitlines()
    place = next(i for i, line in enumerate(lines) if line.strip("^ ") == "" and "^" in line)
    start = lines[place].index("^")
    assert lines[place - 1][start:].startswith(under)


@pytest.mark.parametrize("query", [5, None, b"/a", ["/a"]])
def test_a_query_is_a_string(query: Any) -> None:
    with pytest.raises(OptionError) as caught:
        Engine().add(query)
    assert caught.value.code == "bad-query"


@pytest.mark.parametrize(
    ("xml", "place"),
    [
        (b"", (1, 1, 0)),
        (b"<a>\n <b></c>\n</a>", (2, 5, 8)),
        (b"<a/><b/>", (1, 5, 4)),
        (b"<a>\n\xff</a>", (2, 1, 4)),
        ("<é>€&x;</é>".encode(), (1, 5, 7)),
    ],
)
def test_a_bad_message_is_refused_with_its_place(xml: bytes, place: tuple[int, int, int]) -> None:
    e = engine("//a")
    with pytest.raises(MessageError) as caught:
        e.match(xml)
    error = caught.value
    assert (error.line, error.column, error.offset) == place
    assert error.code and error.text and str(error) == f"{place[0]}:{place[1]}: {error.code}: {error.text}"
    assert e.match(b"<a/>") == [0]
    row = e.match_batch(batch([xml])).column("error").to_pylist()[0]
    assert row == {"code": error.code, "line": place[0], "column": place[1], "offset": place[2], "text": error.text}


def test_what_a_bad_message_matched_before_its_error_is_forgotten() -> None:
    e = engine("//a", "//b")
    for _ in range(8):
        with pytest.raises(MessageError):
            e.match(b"<r><a/><")
        assert e.match(b"<b/>") == [1]
    result = e.match_batch(batch([b"<a/>", b"<a><b></a>", b"<b/>"]))
    assert rows(result) == [[0], [], [1]]
    assert [error is None for error in result.column("error").to_pylist()] == [True, False, True]


@pytest.mark.parametrize("xml", ["<a/>", None, 5, [b"<a/>"]])
def test_a_message_is_bytes(xml: Any) -> None:
    with pytest.raises(OptionError) as caught:
        engine("/a").match(xml)
    assert caught.value.code == "bad-message"


def test_bytes_in_any_wrapping_are_bytes() -> None:
    e = engine("/a")
    assert e.match(bytearray(b"<a/>")) == e.match(memoryview(b"<a/>")) == [0]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"mode": "nfa"}, "moved-option"),
        ({"predicates": "inline"}, "moved-option"),
        ({"sharing": "FW"}, "moved-option"),
        ({"cache_bytes": -1}, "bad-cache"),
        ({"cache_bytes": "1M"}, "bad-cache"),
        ({"limits": {"max_depth": 3}}, "bad-limits"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], code: str) -> None:
    with pytest.raises(OptionError) as caught:
        Engine(**options)
    assert caught.value.code == code


@pytest.mark.parametrize("value", [0, -1, 2**32, 1.5, "7", True])
def test_limits_are_whole_numbers(value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        Limits(max_depth=value)
    assert caught.value.code == "bad-limit"


# ---- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
@pytest.mark.parametrize("order", ["ascending", "any"])
def test_every_arrow_type_of_text(type: pa.DataType, order: Any) -> None:
    e = engine("//a", "//b", "/a")
    xml = ["<a/>", None, "<r><b/><a/></r>", "<r", "<b>é</b>"]
    values = [x.encode() if x is not None and "binary" in str(type) else x for x in xml]
    column = pa.array(values, type)
    result = e.match_batch(batch(column), order=order)
    assert result.schema.names == ["id", "matches", "error", "failures"]
    assert [sorted(r) for r in rows(result)] == [[0, 2], [], [0, 1], [], [1]]
    codes = [error and error["code"] for error in result.column("error").to_pylist()]
    assert codes[0] is None and codes[2] is None and codes[4] is None
    assert codes[1] == "no-root" and codes[3] is not None
    part = e.match_batch(batch(column).slice(2, 2), order=order)
    assert part.column("id").to_pylist() == [2, 3]
    assert [sorted(r) for r in rows(part)] == [[0, 1], []]
    assert e.match_batch(batch(column).slice(5), order=order).num_rows == 0


def test_an_empty_batch_gives_an_empty_batch() -> None:
    result = engine("/a").match_batch(batch([], pa.binary()))
    assert result.num_rows == 0 and result.schema.names == ["id", "matches", "error", "failures"]
    assert rows(engine().match_batch(batch([b"<a/>"]))) == [[]]


def test_a_column_of_nulls_is_all_refused() -> None:
    result = engine("/a").match_batch(batch(pa.nulls(2)))
    assert [error["code"] for error in result.column("error").to_pylist()] == ["no-root", "no-root"]


@pytest.mark.parametrize(
    "column",
    [pa.array(["<a/>"]).dictionary_encode(), pa.array([1]), pa.array([["<a/>"]]), pa.array([{"x": "<a/>"}])],
)
def test_other_types_are_refused_in_words(column: pa.Array) -> None:
    with pytest.raises(OptionError) as caught:
        engine("/a").match_batch(batch(column))
    assert caught.value.code == "bad-batch" and "binary or string" in caught.value.text


@pytest.mark.parametrize(
    "what", [{"xml": ["<a/>"]}, pa.table({"id": [1], "xml": ["<a/>"]}), pa.record_batch({"id": [1]}), None]
)
def test_other_things_than_batches_are_refused_in_words(what: Any) -> None:
    with pytest.raises(OptionError) as caught:
        engine("/a").match_batch(what)
    assert caught.value.code == "bad-batch"


def test_unknown_orders_and_sizes_are_refused() -> None:
    e = engine("/a")
    for order in ("none", "descending", None):
        with pytest.raises(OptionError):
            e.match_batch(batch([b"<a/>"]), order=order)  # type: ignore[arg-type]
    for most in (0, -1, 2**31, 1.5):
        with pytest.raises(OptionError):
            e.match_batches(batch([b"<a/>"]), max_matches=most)  # type: ignore[arg-type]


def test_slices_put_together_are_the_whole() -> None:
    e = engine(*(["//a"] * 5 + ["//b"] * 3))
    xml = batch([[b"<a/>", b"<b/>", b"<", b"<r><a/><b/></r>", b"<c/>"][i % 5] for i in range(23)])
    whole = e.match_batch(xml)
    for most in (1, 2, 5, 8, 9, 1000):
        parts = list(e.match_batches(xml, max_matches=most))
        assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()
        for part in parts:
            before_last = rows(part)[:-1]
            assert sum(map(len, before_last)) < most
    assert len(list(e.match_batches(xml, max_matches=1))) > 10


def test_rows_come_in_ascending_numbers_whatever_was_added_when() -> None:
    e = Engine()
    for i in range(300):
        e.add("//a" if i % 3 else "//b", id=i)
    for i in range(0, 300, 7):
        e.remove(i)
    for i in range(1000, 1030):
        e.add("//*", id=i)
    xml = batch([b"<a/>", b"<b/>", b"<r><a/><b/></r>", b"<c/>"])
    for _ in range(8):
        result, loose = e.match_batch(xml), e.match_batch(xml, order="any")
        assert all(r == sorted(r) for r in rows(result))
        assert [sorted(r) for r in rows(loose)] == rows(result)
        for one, row in zip(xml.column("xml").to_pylist(), rows(result), strict=True):
            assert e.match(one) == e.ids.take(pa.array(row, pa.uint32())).to_pylist()
