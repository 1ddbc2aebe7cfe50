"""The broker paper's query generator: its parameters hold, and a seed gives the same queries."""

from __future__ import annotations

from importlib.resources import files

import pytest

from twigcast.errors import OptionError
from twigcast.ir.pattern import And
from twigcast.lang.flwr import parse_transform
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.schema import dtd_schema
from twigcast.workload import vocabulary


def made(name: str, count: int, **settings: float) -> list[str]:
    return list(TransformGenerator(vocabulary(name), TransformSettings(**settings)).queries(count))  # type: ignore[arg-type]


@pytest.mark.parametrize(("paths", "returns"), [(1, 1), (2, 2), (3, 4)])
def test_parameters(paths: int, returns: int) -> None:
    settings = {"binding_depth": 3, "predicate_paths": paths, "return_paths": returns, "path_depth": 2}
    for query in made("book", 200, **settings):
        transform = parse_transform(query)
        assert len(transform.return_paths) == returns
        assert transform.where is not None
        where = transform.where.predicate
        assert len(where.terms if isinstance(where, And) else [where]) <= paths
        assert transform.binding.twig is not None
        assert len(transform.binding.twig.nodes) <= 3
        assert all(len(path.twig.nodes) <= 2 for path in transform.return_paths if path.twig is not None)


def test_distinct_and_repeatable() -> None:
    first = made("bib", 3000)
    assert len(set(first)) == 3000
    assert first == made("bib", 3000)
    assert first != made("bib", 3000, seed=1)
    assert first[:500] == made("bib", 500)


def test_descendants_as_often_as_asked() -> None:
    assert not any("//" in query for query in made("bib", 300, descendant=0.0))
    assert all(query.count("//") >= 4 for query in made("bib", 300, descendant=1.0, return_paths=1, max_value=100))


def test_every_binding_can_match() -> None:
    for name in ("bib", "book"):
        schema = dtd_schema((files("twigcast.workload") / "dtds" / f"{name}.dtd").read_bytes())
        for query in made(name, 300, binding_depth=3):
            twig = parse_transform(query).binding.twig
            assert twig is not None
            assert schema.impossible(twig) is None


@pytest.mark.parametrize("wrong", [{"descendant": 1.5}, {"return_paths": 0}, {"max_value": 0}, {"binding_depth": 0}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        made("bib", 1, **wrong)


def test_exhausted() -> None:
    with pytest.raises(OptionError, match="exhausted"):
        made("bib", 10_000, descendant=0.0, max_value=1, return_paths=1)
