"""Sharing x optimisation x plan sharing: every way to evaluate transforms gives Saxon's answers on one set of cases."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from plan_cases import COMBINATIONS, accepted_usecases, check, generated, mixed, paper

from schema_support import schema_and_documents
from twigcast import _kernel
from twigcast.errors import OptionError
from twigcast.ir.transform import Transform
from twigcast.lang.flwr import parse_transform
from twigcast.limits import Limits
from twigcast.papers import Engine
from twigcast.papers.options import PlanOptions
from twigcast.papers.plans.transforms import PlannedTransforms
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.transform.encode import _packed
from twigcast.workload import vocabulary


def test_the_papers_queries() -> None:
    pairs, results = check(paper(6), COMBINATIONS)
    assert pairs >= 34
    assert results >= 2


def test_use_cases(shared_data: Path) -> None:
    assert sum(check(case, COMBINATIONS)[0] for case in accepted_usecases(shared_data / "xquery-usecases")) == 6


@pytest.mark.parametrize("name", ["bib", "book"])
def test_generated(name: str) -> None:
    pairs, results = check(generated(name, 30, 4), COMBINATIONS)
    assert pairs == 120
    assert results > 15


def test_namespaces_and_mixed_content() -> None:
    pairs, results = check(mixed(40, 4), COMBINATIONS)
    assert pairs > 120
    assert results > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("name", ["bib", "book", "mixed"])
def test_tens_of_thousands(name: str, seed: int) -> None:
    """15 x (200 x 10): 30,000 pairs of a query and a document."""
    case = mixed(200, 10, seed) if name == "mixed" else generated(name, 200, 10, seed)
    pairs, results = check(case, COMBINATIONS)
    assert pairs > 1800
    assert results > 100


# -- what the kernel keeps


@pytest.mark.parametrize("sharing", ["F", "FW", "FWR"])
def test_plans_come_and_go(sharing: str) -> None:
    schema, documents = schema_and_documents("book", 6)
    random = Random(f"come and go {sharing}")
    options = PlanOptions(sharing, "query", schema=schema)
    assert not options.own
    transforms: dict[int, Transform] = {}
    plans = PlannedTransforms(options)
    number = 0
    for paths in (1, 2, 3):
        settings = TransformSettings(binding_depth=3, predicate_paths=paths, max_value=3, seed=paths)
        for text in TransformGenerator(vocabulary("book"), settings).queries(60):
            transforms[number] = parse_transform(text)
            plans.add(number, transforms[number])
            number += 1
        for gone in random.sample(sorted(transforms), 25):
            del transforms[gone]
            plans.remove(gone)
        fresh = PlannedTransforms(options)
        for n, transform in transforms.items():
            fresh.add(n, transform)
        assert fresh.plans.stats() == plans.plans.stats()
        for xml in documents:
            left, right = (one.make(xml, Limits())[0] for one in (plans, fresh))
            assert {one.number: one.payload for one in left} == {one.number: one.payload for one in right}
    for gone in list(transforms):
        plans.remove(gone)
    assert plans.plans.stats() == (0, [0, 0, 0, 0])
    assert plans.make(documents[0], Limits()) == ([], None)


def test_constants_share_a_join_and_equal_queries_everything() -> None:
    plans = PlannedTransforms(PlanOptions(optimize="query"))
    for n in range(50):
        text = f"<r>{{ for $v in //book where $v/title = '{n}' and $v/@y > {n} return <b>{{ $v/price }}</b> }}</r>"
        plans.add(n, parse_transform(text))
    assert plans.plans.stats() == (50, [1, 50, 1, 50])  # joins, outputs, group-bys, results
    for n in range(50, 150):
        text = "<r>{ for $w in //book where $w/@y > 7 and $w/title = '7' return <b>{ $w/price }</b> }</r>"
        plans.add(n, parse_transform(text))
    assert plans.plans.stats() == (150, [1, 50, 1, 50])
    xml = b"<x><book y='8'><title>7</title><price>1</price></book><book y='9'><title>8</title></book></x>"
    made, _ = plans.make(xml, Limits())
    assert sorted(one.number for one in made) == [7, 8, *range(50, 150)]
    assert len({id(one.payload) for one in made}) == 2


def test_the_profile_counts_operators() -> None:
    text = "<r>{ for $v in //a where $v/b = '1' return <e>{ $v/c }</e> }</r>"
    column = pa.array([b"<x><a><b>1</b><c/><c/></a><a><c/></a></x>"])
    for sharing, kinds in (
        ("F", {"where-filter", "return-select"}),
        ("FW", {"semijoin", "selection", "return-select"}),
        ("FWR", {"semijoin", "selection", "outer-join-select", "dupelim"}),
    ):
        plans = PlannedTransforms(PlanOptions(sharing, "none", share_plans=False))
        plans.add(0, parse_transform(text))
        costs = plans.plans.profile_column(column, Limits().as_dict())
        assert kinds <= {kind for kind, (runs, _, _) in costs.items() if runs}
        assert costs["paths"][0] == 1
        assert plans.plans.count_column(column, "groups", Limits().as_dict())[:2] == (1, 1)
        # two dupelims of two and three tuples, one of which has a b
        assert sharing != "FWR" or costs["dupelim"][:2] == (2, 5)


def test_too_much_is_refused() -> None:
    plans = PlannedTransforms(PlanOptions("F"))
    plans.add(0, parse_transform("<r>{ for $v in //a//a//a//a//a//a return $v }</r>"))
    made, error = plans.make(b"<a>" * 60 + b"</a>" * 60, Limits())
    assert not made
    assert error is not None
    assert error[0] == "too-much-to-transform"
    assert len(plans.make(b"<a>" * 8 + b"</a>" * 8, Limits())[0]) == 1


def test_very_many_paths() -> None:
    """More than a plan takes: the rest is searched for, or libxml2 does it."""
    where = " and ".join(f"$v/b{i}" for i in range(300))
    returns = "".join(f"{{ $v/c{i} }}" for i in range(1100))
    xml = b"<a>" + b"".join(b"<b%d/>" % i for i in range(300)) + b"<c7/></a>"
    for options in ({}, {"sharing": "FW"}, {"share_plans": False}):
        engine = Engine(**options)  # type: ignore[arg-type]
        engine.add(f"<r>{{ for $v in //a where {where} return <e>{{ $v/c7 }}</e> }}</r>")
        engine.add(f"<r>{{ for $v in //a return <e>{returns}</e> }}</r>")
        assert [one.payload for one in engine.select(xml)] == [b"<r><e><c7/></e></r>"] * 2
        assert len(engine.select(b"<a><b1/><c7/></a>")) == 1


def test_wrong_codes_are_refused() -> None:
    """Whatever the words, the kernel answers with an error."""
    random = Random("codes")
    kernel = _kernel.papers.Plans()
    symbol = kernel.symbol(False, "", "a")
    program = [2, 2, 5, 1, symbol, 0, 5, 1, symbol | 1 << 31, 1, 5, 1, symbol, 0]
    made = _packed(([], b"<r>", [("copy", 0, False)], b"</r>"))
    kernel.add(0, [0, 6, 1, 1, 0, 0, 1, 0, 0], program, [], made, True)
    refused = 0
    for number in range(1, 3000):
        codes = [random.choice((0, 1, 1, 2, 3, 4, 5, 6, 7, 2**32 - 1)) for _ in range(random.randint(0, 14))]
        try:
            kernel.add(number, codes, program, [], made, random.random() < 0.5)
        except ValueError:
            refused += 1
    assert refused > 2000
    for xml in (b"<a/>", b"<a><a/><b><a/></b></a>"):
        assert kernel.transform_one(xml)[4] is None


# -- options


def test_options_that_are_not_there() -> None:
    for options, hint in (
        ({"sharing": "FR"}, "F, FW, FWR"),
        ({"optimize": "all"}, "none, query, schema"),
        ({"on_invalid": "ignore"}, "fallback, reject, trust"),
        ({"share_plans": "yes"}, "True, False"),
        ({"schema": "no such file.dtd"}, None),
        ({"schema": 5}, "dtd_schema"),
    ):
        with pytest.raises(OptionError) as caught:
            Engine(**options)  # type: ignore[arg-type]
        assert hint is None or hint in str(caught.value.hint)


def test_a_snapshot_keeps_the_options(tmp_path: Path) -> None:
    engine = Engine(sharing="FW", optimize="query", share_plans=False)
    engine.add("<r>{ for $v in //a return $v/b }</r>", id="x")
    engine.save(tmp_path / "s")
    opened = Engine.open(tmp_path / "s")
    assert (opened.plans.sharing, opened.plans.optimize, opened.plans.share_plans) == ("FW", "query", False)
    assert [one.payload for one in opened.select(b"<a><b/></a>")] == [b"<r><b/></r>"]
