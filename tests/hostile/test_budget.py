"""Attacks on memory by what subscriptions get of a message: the budget bounds it, and small subscriptions get theirs.

Each attack runs in a process of its own, whose peak of resident memory is what the operating system says.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MB = 1 << 20
BUDGET = 8 * MB

PRELUDE = """
import json, sys
from twigcast import Broker, Limits
from twigcast.engine import Engine, Subscription

def peak():
    # not ru_maxrss, which a process inherits from the one that starts it
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

limits = Limits(max_message_result_bytes={budget}, max_result_bytes={own})
# everything that is loaded or made once
warm = Broker(limits=limits)
warm.subscribe("//a", id=1, result="fragments")
warm.subscribe("//a[position() mod 2 = 1 or id('x')]", id=2, result="fragments")
warm.subscribe("<r>{{ for $a in //a order by concat($a, $a) return <b>{{ $a }}</b> }}</r>", id=3)
warm.subscribe("S//a->x FOLLOWED BY{{x=y, INF}} S//a->y", id=4)
for at in range(2):
    warm.publish(b"<m><a>1</a></m>", time=at, stream="S")
before = peak()
"""
EPILOGUE = """
print(json.dumps({"grown": peak() - before, **told}))
"""


def attacked(attack: str, *, budget: int = BUDGET, own: int = BUDGET) -> dict[str, object]:
    """Run an attack in a process of its own; return what it tells and by how much the process has grown."""
    code = PRELUDE.format(budget=budget, own=own) + attack + EPILOGUE
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, object] = json.loads(done.stdout)
    return told


FRAGMENTS = """
engine = Engine(limits=limits)
engine.add_many([Subscription(i, f"//a[not(@x{i})]", result="fragments") for i in range(300)])
engine.add("//a[not(a)]/@small", id="small", result="fragments")
xml = b"<a>" * 59 + b"<a small='1'>" + b"x" * 100_000 + b"</a>" * 60
found = {one.id: one for one in engine.select(xml)}
"""
RESIDUAL = FRAGMENTS.replace("//a[not(@x{i})]", "//a[last() >= 1 or id('x{i}')]")
TRANSFORMS = """
engine = Engine(limits=limits)
for i in range(300):
    engine.add(f"<r>{{ for $a in //a where not($a/@x{i}) return <b>{{ $a }}</b> }}</r>", id=i)
engine.add("<r>{ for $a in //a/@small return <b>{ $a }</b> }</r>", id="small")
xml = b"<a>" * 29 + b"<a small='1'>" + b"x" * 10_000 + b"</a>" * 30
found = {one.id: one for one in engine.select(xml)}
"""
SLOW_TRANSFORMS = TRANSFORMS.replace("where not($a/@x{i})", "where not($a/preceding::q{i})")
TELL = """
delivered = sum(sum(map(len, one.fragments or ())) + len(one.payload or b"") for one in found.values())
reasons = sorted({str(one.reason) for one in found.values()})
told = {"small": found["small"].complete, "delivered": delivered, "reasons": reasons}
"""


@pytest.mark.parametrize(
    "attack", [FRAGMENTS, RESIDUAL, TRANSFORMS, SLOW_TRANSFORMS], ids=["fragments", "residual", "transforms", "slow"]
)
def test_many_large_results_stay_within_the_budget_and_leave_small_ones_whole(attack: str) -> None:
    told = attacked(attack + TELL)
    assert told["small"] is True
    assert told["reasons"] == ["None", "budget-bytes"]
    assert int(str(told["delivered"])) <= BUDGET
    assert int(str(told["grown"])) < 5 * BUDGET + 24 * MB


@pytest.mark.parametrize("where", ["", "where not($a/preceding::none)"], ids=["kernel", "python"])
def test_sort_keys_take_no_more_than_the_message_they_are_for(where: str) -> None:
    attack = f"""
engine = Engine(limits=limits)
keys = ",".join(["$a"] * 3000)
engine.add("<r>{{ for $a in //a {where} order by concat(" + keys + ") return <x/> }}</r>", id=1)
(found,) = engine.select(b"<m>" + (b"<a>" + b"x" * 1000 + b"</a>") * 500 + b"</m>")
told = {{"reason": found.reason, "complete": found.complete, "payload": found.payload}}
"""
    told = attacked(attack)
    assert (told["reason"], told["complete"], told["payload"]) == ("limit-result-bytes", False, None)
    assert int(str(told["grown"])) < 3 * BUDGET + 24 * MB


def test_values_in_a_new_message_take_no_more_than_it_may() -> None:
    attack = """
engine = Engine(limits=limits)
values = ",".join(["$a"] * 2000)
engine.add("<r>{ for $a in /m return <x v='{ concat(" + values + ") }'>{ concat(" + values + ") }</x> }</r>", id=1)
(found,) = engine.select(b"<m>" + b"x" * 500_000 + b"</m>")
told = {"reason": found.reason}
"""
    told = attacked(attack)
    assert told["reason"] == "limit-result-bytes"
    assert int(str(told["grown"])) < 3 * BUDGET + 24 * MB


JOIN = """
broker = Broker(limits=limits)
for i in range({queries}):
    broker.subscribe(f"S//a->x[@q{{i}}] FOLLOWED BY{{{{x=y, INF}}}} S//a->y", id=i)
broker.subscribe("S//few->x FOLLOWED BY{{x=y, INF}} S//few->y", id="few")
attributes = "".join(f" q{{i}}='1'" for i in range({queries}))
one = "<a" + attributes + ">" + "v" * {size} + "</a>"
xml = ("<m>" + one * {nodes} + "<few>1</few></m>").encode()
broker.publish(xml, id=1, time=1, stream="S")
found = broker.publish(xml, id=2, time=2, stream="S")
few = [one for one in found if one.subscription == "few"]
told = {{
    "results": sum(one.payload is not None for one in found),
    "bytes": sum(len(one.payload or b"") for one in found),
    "reasons": sorted({{str(one.reason) for one in found}}),
    "few": [one.complete for one in few],
    "marked": len({{one.subscription for one in found if not one.complete}}),
}}
"""


def test_one_correlation_gets_no_more_results_than_a_subscription_may() -> None:
    told = attacked(JOIN.format(queries=1, size=1, nodes=400))
    assert told["results"] == 10_001  # the few one's too
    assert told["reasons"] == ["None", "limit-result-nodes"] and told["marked"] == 1
    assert told["few"] == [True]
    assert int(str(told["grown"])) < 64 * MB


def test_correlations_share_the_bytes_of_a_message() -> None:
    told = attacked(JOIN.format(queries=20, size=2000, nodes=60))
    assert int(str(told["bytes"])) <= BUDGET
    assert told["reasons"] == ["None", "budget-bytes"] and told["marked"] == 20
    assert told["few"] == [True]
    assert int(str(told["grown"])) < 6 * BUDGET + 24 * MB


MANY = """
broker = Broker(limits=limits)
broker.subscribe("S//a->x FOLLOWED BY{x=y, INF} S//a->y", id="pair")
for i in range(20):
    broker.subscribe(f"//a[@q{i} or not(@none)]", id=i, result="fragments")
messages = [f"<m><a>{n}{'v' * 300_000}</a></m>".encode() for n in range(40)]
sizes = [sum(len(one.fragments[0]) for one in found) for found in broker.publish_many(messages, stream="S")]
told = {"messages": len(sizes), "least": min(sizes)}
"""


def test_messages_of_a_batch_are_published_a_few_at_a_time_if_their_results_are_large() -> None:
    told = attacked(MANY)
    assert told["messages"] == 40 and int(str(told["least"])) > BUDGET // 2
    assert int(str(told["grown"])) < 10 * BUDGET + 24 * MB
