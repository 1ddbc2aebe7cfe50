"""No query takes long to compile: what would be a huge pattern is left to the full XPath engine."""

from __future__ import annotations

from time import thread_time

import pytest

from twigcast.lang.compile import compile_query
from twigcast.plan.planner import plan

NASTY = {
    "a chain of booleans": "/a[" + " = ".join(f"(boolean(b{i}))" for i in range(60)) + "]",
    "unequal booleans above": "/a[" + " != ".join(f"(boolean(../b{i}))" for i in range(60)) + "]",
    "nested in each other": "//a[" + "boolean(" * 60 + "b" + ") = boolean(c)" * 60 + "]",
    "conditions above": "//a[ancestor-or-self::*/ancestor::a[*[not(following::z) or a[boolean(*[not(..) or self::a])"
    " != boolean(descendant-or-self::*)]] and following::z]]",
    "unions above": "//a[(ancestor::*/ancestor::a[following::z and a[boolean(/x) != boolean(//y)]] | ../c)]",
}


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY.keys())
def test_is_bounded(text: str) -> None:
    began = thread_time()
    plan(compile_query(text))
    assert thread_time() - began < 2
