from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from twigcast.errors import OptionError
from twigcast.workload import DocumentGenerator, QueryGenerator, QuerySettings, read_dtd, vocabulary


def make(count: int, name: str = "book", **setting: Any) -> list[str]:
    return list(QueryGenerator(vocabulary(name), QuerySettings(**setting)).queries(count))


@given(
    st.builds(
        QuerySettings,
        depth=st.integers(1, 9),
        descendant=st.floats(0, 1),
        wildcard=st.floats(0, 1),
        predicates=st.integers(0, 3),
        predicate_depth=st.integers(0, 2),
        inequalities=st.floats(0, 1),
        nested=st.integers(0, 2),
        nested_depth=st.integers(1, 3),
        distinct=st.just(False),
        skew=st.floats(0, 2),
        seed=st.integers(0, 1000),
    )
)
@settings(max_examples=60, deadline=None)
def test_queries_are_xpath_within_the_settings(setting: QuerySettings) -> None:
    try:
        queries = list(islice(QueryGenerator(vocabulary("book"), setting).queries(20), 20))
    except OptionError as error:  # depth 1 with predicates, say: the root has no place for so many
        assert error.code == "exhausted"
        return
    for query in queries:
        etree.XPath(query)
        main = re.sub(r"\[[^]]*\]", "", query)
        assert 1 <= len(re.findall(r"/+", main)) <= setting.depth
        assert query.count("[") == setting.predicates + setting.nested


def test_distinct_and_deterministic() -> None:
    queries = make(5_000, seed=3)
    assert len(set(queries)) == 5_000
    assert queries == make(6_000, seed=3)[:5_000]
    assert queries != make(5_000, seed=4)


def test_a_generator_starts_over() -> None:
    generator = QueryGenerator(vocabulary("book"))
    assert list(generator.queries(10)) == list(generator.queries(10))


def test_probabilities_of_axis_and_wildcard() -> None:
    text = "".join(make(4_000, distinct=False, descendant=0.3, wildcard=0.1))
    steps = len(re.findall("/+", text))
    assert abs(text.count("//") / steps - 0.3) < 0.03
    assert abs(text.count("*") / steps - 0.1) < 0.03
    plain = make(50, descendant=0, wildcard=0)
    assert not any("//" in query or "*" in query for query in plain)


def test_skew_prefers_the_first_children() -> None:
    def share(skew: float) -> float:
        queries = make(2_000, "catalog", distinct=False, descendant=0, wildcard=0, depth=2, skew=skew)
        return sum(query == "/catalog/header" for query in queries) / len(queries)

    assert share(2.0) > 2 * share(0.0)


def test_plain_paths_occur_in_documents() -> None:
    # Walks follow the DTD, so most plain paths are found in enough of its documents.
    dtd = vocabulary("book")
    roots = [etree.fromstring(d) for d in DocumentGenerator(dtd, depth=8, max_elements=300).documents(200)]
    queries = [etree.XPath(q) for q in make(40, depth=4, descendant=0.2, wildcard=0.2)]
    assert sum(any(query(root) for root in roots) for query in queries) >= 35


def test_predicates_select() -> None:
    dtd = vocabulary("bib")
    root = etree.fromstring(DocumentGenerator(dtd, depth=4, repeats={"book": (20, 20)}, max_value=30).document(0))
    queries = make(200, "bib", depth=4, predicates=1, max_value=30, distinct=False)
    hits = sum(bool(etree.XPath(query)(root)) for query in queries)
    assert 0 < hits < 200


def test_prefix_goes_on_every_element_and_no_attribute() -> None:
    generator = QueryGenerator(vocabulary("book"), QuerySettings(predicates=1, nested=1), prefix="b")
    for query in generator.queries(200):
        etree.XPath(query, namespaces={"b": "urn:b"})
        for name in re.findall(r"(?<![\w:@.\"])([a-z]+:)?([a-z]+)(?![\w:(\"])", query):
            assert name[0] == "b:", query


def test_running_out_is_an_error_not_a_short_list() -> None:
    with pytest.raises(OptionError) as caught:
        make(10_000, "bib", depth=2)
    assert caught.value.code == "exhausted"
    assert "distinct" in caught.value.text and caught.value.hint


@pytest.mark.parametrize("setting", [{"depth": 0}, {"wildcard": -0.1}, {"skew": -1}, {"predicates": -1}])
def test_settings_out_of_range(setting: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as caught:
        make(1, **setting)
    assert caught.value.code == "out-of-range"


def test_nitf(shared_data: Path) -> None:
    dtd = read_dtd(shared_data / "yfilter-nitf" / "sample" / "nitf-2-5.dtd")
    assert len(set(QueryGenerator(dtd).queries(20_000))) == 20_000
