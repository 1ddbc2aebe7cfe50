"""What is told of a transform."""

from __future__ import annotations

from flwr_paper import QUERIES, QUERY_1, QUERY_2
from schema_support import text_of
from twigcast import Broker
from twigcast.lang.flwr import parse_transform
from twigcast.schema import dtd_schema
from twigcast.transform.explanation import TransformExplanation

BOOK = dtd_schema(text_of("book"))


def test_the_broker_explains_transforms() -> None:
    told = Broker(schema=BOOK).explain(QUERY_2)
    assert isinstance(told, TransformExplanation)
    assert "binds       //section[@id <= 2]//figure" in str(told)
    assert "evaluated   in the kernel" in str(told)


def test_what_is_shared_with_others() -> None:
    others = [parse_transform(text) for text in (QUERY_1, QUERY_1.replace("XML processing", "other"), *QUERIES)]
    lines = str(TransformExplanation(QUERY_1.replace("$s", "$t"), among=others)).splitlines()
    told = [
        line[12:] for line in lines if " have " in line or "the return" in line or "equal" in line or "but for" in line
    ]
    assert told == [
        "of 5 transforms 4 have the binding path",
        "3 the condition, but for constants",
        "3 the return path title",
        "3 the return path figure",
        "2 are equal: these are made once",
    ]
