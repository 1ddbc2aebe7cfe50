"""Where all transforms together are too much work for a message, those that need little of it are complete."""

from __future__ import annotations

from twigcast import Engine, Subscription
from twigcast.engine.failures import Failure

LEVELS, LEAVES = 900, 40_000
MESSAGE = b"<a>" * LEVELS + b"<x/>" * LEAVES + b"</a>" * LEVELS
GREEDY = 8


def test_greedy_transforms_leave_the_others_their_share() -> None:
    engine = Engine()
    greedy = "<r>{{ for $v in //a where $v//x return <n{n}>{{ count($v//x[not(y{n})]) }}</n{n}> }}</r>"
    harmless = "<r>{ for $v in /a return <n>{ count($v/a) }</n> }</r>"
    engine.add_many(Subscription(f"greedy {n}", greedy.format(n=n)) for n in range(GREEDY))
    engine.add_many([Subscription("harmless", harmless), Subscription("filter", "//x")])
    for ask in (engine.match, lambda xml, failures: [one.id for one in engine.select(xml, failures=failures)]):
        failures: list[Failure] = []
        assert ask(MESSAGE, failures=failures) == ["harmless", "filter"]
        assert [one.id for one in failures] == [f"greedy {n}" for n in range(GREEDY)]
        assert {one.error.code for one in failures} == {"transform-too-costly"}
