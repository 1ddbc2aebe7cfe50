"""What is told of a transform: the plan in words, for programs, and as pictures."""

from __future__ import annotations

import re

import pytest
from lxml import etree

from flwr_paper import QUERIES, QUERY_1, QUERY_2
from schema_support import text_of
from twigcast.errors import OptionError
from twigcast.papers import PlanExplanation
from twigcast.schema import dtd_schema

BOOK = dtd_schema(text_of("book"))
SVG = "{http://www.w3.org/2000/svg}"


def test_the_plan_in_words() -> None:
    told = str(PlanExplanation(QUERY_2, schema=BOOK))
    assert "OuterJoin-Select on field 2, merge: image  (claim 5)" in told
    assert "for valid messages only" in told
    plain = str(PlanExplanation(QUERY_2))
    assert "OuterJoin-Select on field 2, hash" in plain and "claim 5" not in plain


def test_the_plan_for_programs() -> None:
    told = PlanExplanation(QUERY_2, schema=BOOK).as_dict()
    root = told["plan"]["root"]
    assert (root["operator"], root["form"], root["because"]) == ("OuterJoin-Select", "merge", "claim 5")
    assert [one["operator"] for one in root["inputs"]] == ["Semijoin", "DupElim"]
    assert (told["evaluated"], told["returns"], told["never"], told["sharing"]) == ("kernel", ["image"], None, None)
    slow = PlanExplanation("<r>{ for $v in //a where $v/following::b return $v }</r>").as_dict()
    assert slow["evaluated"] == "xpath" and slow["residual"][0]["text"]
    assert slow["plan"]["root"]["operator"] == "libxml2"
    never = PlanExplanation(QUERY_1.replace("figure/title", "figure/titel"), schema=BOOK).as_dict()
    assert "titel" in never["never"]["text"] and never["plan"]["root"]["operator"] == "Nothing"


def test_ways_of_sharing_and_levels() -> None:
    assert "Where-Filter" in str(PlanExplanation(QUERY_1, sharing="F"))
    assert "Return-Select" in str(PlanExplanation(QUERY_1, sharing="FW"))
    assert "DupElim on fields 1, 2, hash" in str(PlanExplanation(QUERY_1, optimize="none", schema=BOOK))
    for wrong in ({"sharing": "W"}, {"optimize": "all"}):
        with pytest.raises(OptionError):
            PlanExplanation(QUERY_1, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("sharing", ["F", "FW", "FWR"])
@pytest.mark.parametrize("query", QUERIES)
def test_pictures(query: str, sharing: str) -> None:
    told = PlanExplanation(query.replace("XML processing", 'a "b" \\ <c>'.replace('"', "'")), sharing=sharing)
    operators = str(told.as_dict()["plan"]).count("'operator'")
    dot = told.dot()
    assert dot.count("[label=") == operators and dot.count("->") == operators - 1
    assert all(line.count('"') - line.count(r"\"") in (0, 2) for line in dot.splitlines())
    root = etree.fromstring(told.svg())
    boxes = [{key: float(box.get(key)) for key in ("x", "y", "width", "height")} for box in root.iter(f"{SVG}rect")]
    assert len(boxes) == operators + 1  # and the engine
    for at, one in enumerate(boxes):
        assert one["x"] >= 0 and one["x"] + one["width"] <= float(root.get("width"))
        assert one["y"] + one["height"] <= float(root.get("height"))
        for other in boxes[at + 1 :]:
            apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            assert apart or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
    said = re.sub(r"\s+", " ", " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text")))
    assert "path matching engine" in said and "//section" in said
