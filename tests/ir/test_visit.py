"""Walking and rewriting: the same three functions for patterns, transforms, correlations and syntax trees."""

from __future__ import annotations

import gc
import pickle

from twigcast.ir.pattern import And, Compare, Const, Exists, Node, Not, Step, StringValue, Twig
from twigcast.ir.transform import Copy, Element, Hole, Name, Path
from twigcast.ir.visit import Part, find_all, replace, transform, walk
from twigcast.lang import ast
from twigcast.lang.xpath import parse

A, B = Step("child", "element", "", "a"), Step("descendant", "element", "", "b")
BELOW_A = Compare(StringValue(Twig((Node(A),))), "=", Const("in"))
PATTERN = And((Not(BELOW_A), Exists(Twig((Node(B, (BELOW_A,)), Node(A))))))


def test_walk_goes_from_the_outside_in_and_from_left_to_right() -> None:
    kinds = [type(part).__name__ for part in walk(PATTERN) if not isinstance(part, Step | Node)]
    value = ["Compare", "StringValue", "Twig", "Const"]
    assert kinds == ["And", "Not", *value, "Exists", "Twig", *value]


def test_find_all_of_a_tuple_of_parts() -> None:
    assert list(find_all((BELOW_A, Node(B)), Step)) == [A, B]


def test_transform_replaces_everywhere_and_shares_what_stays() -> None:
    changed = transform(PATTERN, lambda part: replace(part, local="c") if part == A else part)
    assert str(changed) == "not(c = 'in') and .//b[c = 'in']/c"
    assert str(PATTERN) == "not(a = 'in') and .//b[a = 'in']/a"
    assert transform(PATTERN, lambda part: part) is PATTERN


def test_transform_of_a_template() -> None:
    template = Element(Name("", "r"), content=("text", Hole((Copy(Path("a", "element", None)),))))

    def rename(part: Part) -> Part:
        return replace(part, text="b") if isinstance(part, Path) else part

    assert [path.text for path in find_all(transform(template, rename), Path)] == ["b"]


def test_a_syntax_tree_compares_without_its_spans() -> None:
    one, other = parse("/a[b = 1]", {}), parse("/a[ b=1 ]", {})
    assert one == other and hash(one) == hash(other)
    assert one != parse("/a[b = 2]", {})
    assert [number.value for number in find_all(one, ast.Number)] == [1.0]


def test_parts_survive_pickling_and_leave_the_garbage_collector_alone() -> None:
    str(PATTERN)
    again = pickle.loads(pickle.dumps(PATTERN))
    assert again == PATTERN and hash(again) == hash(PATTERN)
    assert not gc.is_tracked(PATTERN)
