"""The table of hostile subscriptions. A new attack is a new row; `test_hostile_subscriptions.py` runs each of them
beside subscriptions of others, which must get their matches whatever it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class HostileSubscription:
    """``make`` gives the query. It is refused with one of ``codes`` when it is subscribed; without any it is accepted,
    and may then fail on a message, alone. ``message`` is what it is aimed at."""

    name: str
    make: Callable[[], str]
    codes: tuple[str, ...] = ()
    message: bytes = b"<a><b>1</b></a>"
    result: str = "match"


def _deep(depth: int) -> str:
    return "//a[b" * depth + "]" * depth


def _concat(arguments: int) -> str:
    return "//*[string-length(concat(" + ",".join(["/"] * arguments) + ")) = 1]"


SUBSCRIPTIONS = (
    HostileSubscription("a function of many arguments", lambda: _concat(25_000)),
    HostileSubscription("the same, of nodes", lambda: _concat(25_000), result="nodes"),
    HostileSubscription("operators nested too deeply", lambda: f"//a[{' + '.join(['1'] * 600)} = 1]", ("too-deep",)),
    HostileSubscription(
        "more steps than a query may take",
        lambda: "//*[ancestor::*[count(ancestor::*) > 99999]]",
        message=b"<a>" * 900 + b"</a>" * 900,
    ),
    HostileSubscription(
        "the same in a transform",
        lambda: "<r>{ for $v in //*[following::a[count(preceding::*) > 99999]] return $v }</r>",
        message=b"<a>" + b"<a/>" * 3_000 + b"</a>",
    ),
    HostileSubscription("nested parentheses", lambda: "(" * 50_000 + "//a" + ")" * 50_000, ("too-deep", "too-long")),
    HostileSubscription("nested predicates", lambda: _deep(5_000), ("too-deep", "too-long")),
    HostileSubscription("a very long name", lambda: "//" + "a" * 2_000_000, ("too-long",)),
    HostileSubscription("document()", lambda: 'document("file:///etc/passwd")//a', ("unknown-function",)),
    HostileSubscription("a variable", lambda: "//a[b = $x]", ("variable", "unknown-variable")),
    HostileSubscription("many predicates", lambda: "//a" + "[b]" * 1_000),
)
