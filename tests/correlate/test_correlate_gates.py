"""A message is taken to blocks, and to transforms, only if it has a path that one of them needs."""

from __future__ import annotations

from random import Random

import pytest

from twigcast import Broker

NAMES = ("a", "b", "c")
FILTER = "/list/{n}[name = '{v}']"
TRANSFORM = "<r>{{ for $i in /list/{n} where $i/name = '{v}' return $i/name }}</r>"
BLOCK = "SELECT * FROM S/list/{n}->i[name->x = '{v}'] FOLLOWED BY{{x = y, 9 s}} S/list/end->e[name->y]"
ANY = "SELECT * FROM S//*->i[name->x = '{v}'] FOLLOWED BY{{x = y, 9 s}} S/list/end->e[name->y]"


def test_subscriptions_of_all_kinds_come_and_go_behind_the_same_paths() -> None:
    random = Random("gates")
    broker = Broker()
    live: dict[str, tuple[str, str, str]] = {}
    answers = 0
    for time in range(0, 4_000, 20):
        for kind in (FILTER, TRANSFORM, BLOCK, ANY):
            n, v = random.choice(NAMES), str(random.randrange(3))
            id = f"{kind} {n} {v}"
            if id in live:
                broker.unsubscribe(id)
                del live[id]
            elif random.random() < 0.7:
                broker.subscribe(kind.format(n=n, v=v), id=id)
                live[id] = (kind, n, v)
        n, v = random.choice(NAMES), str(random.randrange(4))
        first = f"<list><{n} id='1'><name>{v}</name></{n}></list>".encode()
        found = {match.subscription for match in broker.publish(first, stream="S", time=time)}
        single = {id for id, (kind, *of) in live.items() if kind in (FILTER, TRANSFORM) and of == [n, v]}
        assert found == single
        last = f"<list><end><name>{v}</name></end></list>".encode()
        found = {match.subscription for match in broker.publish(last, stream="S", time=time + 1)}
        joined = {
            id for id, (kind, *of) in live.items() if (kind == ANY and of[1] == v) or (kind == BLOCK and of == [n, v])
        }
        assert found == joined
        answers += len(single) + len(joined)
    assert answers > 100


@pytest.mark.parametrize("filters", [0, 1, 5])
def test_the_path_of_a_block_is_no_subscription_to_it(filters: int) -> None:
    """Beside filters that are mere paths, on a stream that no correlation reads."""
    broker = Broker()
    for n in range(filters):
        broker.subscribe(f"/list/f{n}", id=f"f{n}")
    broker.subscribe("SELECT * FROM S/list/a->i FOLLOWED BY{i = e, 9 s} S/list/end->e", id="both")
    message = b"<list><a/><f0/><end/></list>"
    for matches in (broker.publish(message, stream="T"), *broker.publish_many([message], stream="T")):
        assert matches.subscriptions == ["f0"][:filters]
    assert broker.engine.match(message) == ["f0"][:filters]
