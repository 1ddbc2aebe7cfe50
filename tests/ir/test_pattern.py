"""The IR on its own: text, decomposition, constants, immutability."""

from __future__ import annotations

import pytest

from twigcast.ir.pattern import (
    And,
    Compare,
    Const,
    Count,
    Exists,
    LinearPath,
    Match,
    Node,
    Not,
    Or,
    Position,
    Step,
    StringValue,
    Twig,
    constants,
    in_order,
)

A, B = Step("child", "element", "", "a"), Step("descendant", "element", "urn:b", "b")


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (A, "/a"),
        (B, "//{urn:b}b"),
        (Step("child", "element"), "/*"),
        (Step("child", "element", "", None), "/{}*"),
        (Step("child", "element", None, "x"), "/*:x"),
        (Step("descendant", "attribute", "", "x"), "//@x"),
        (Step("child", "attribute", "u", None), "/@{u}*"),
        (Step("child", "text"), "/text()"),
        (Step("child", "pi", None, "t"), "/processing-instruction('t')"),
        (Step("child", "node"), "/node()"),
    ],
)
def test_step_text(step: Step, text: str) -> None:
    assert str(step) == text


def test_a_twig_gives_its_linear_path() -> None:
    twig = Twig((Node(A, (Exists(Twig((Node(B),))),)), Node(B)))
    assert twig.path == LinearPath((A, B))
    assert str(twig) == "a[.//{urn:b}b]//{urn:b}b"
    assert str(Twig()) == "."


def test_patterns_are_values() -> None:
    one, two = (And((Exists(Twig((Node(A),))), Position("position", "=", 1))) for _ in range(2))
    assert one == two and hash(one) == hash(two)
    with pytest.raises(AttributeError):
        one.terms = ()  # type: ignore[misc]


def test_constants_in_order_of_traversal() -> None:
    below = Compare(StringValue(Twig()), "=", Const("in"))
    pattern = Or(
        (
            Not(Compare(StringValue(Twig((Node(A, (below,)),))), "=", Const("after"))),
            And(
                (
                    Match("contains", StringValue(Twig()), Const("text")),
                    Compare(Count(Twig((Node(B),))), ">", Const(2.0)),
                )
            ),
        )
    )
    assert [const.value for const in constants(pattern)] == ["in", "after", "text", 2.0]


def test_order_looks_at_the_shape_before_the_constants() -> None:
    def term(step: Step, value: str) -> Compare:
        return Compare(StringValue(Twig((Node(A), Node(step)))), "=", Const(value))

    c, d = Step("child", "element", "", "c"), Step("child", "element", "", "d")
    assert in_order([term(d, "1"), term(c, "2"), term(c, "1")]) == [term(c, "1"), term(c, "2"), term(d, "1")]
