"""``twigcast explain`` and ``twigcast test``: output, exit status, mistakes."""

from __future__ import annotations

import json
from typing import Any

ORDER = '<order id="7">\n  <total>70</total>\n</order>\n'


def test_explain(run: Any, folder: Any) -> None:
    done = run("explain", "/a//b/@c")
    assert done.returncode == 0
    assert done.stdout.splitlines()[:3] == [
        "query       /a//b/@c",
        "kind        filter (XPath): paths, shared",
        "pattern     /a//b/@c",
    ]
    folder({"s.txt": "/a\n/b\n/a\n"})
    shown = json.loads(run("explain", "--format", "json", "-s", "s.txt", "/a").stdout)
    assert shown["query"] == "/a" and shown["cost"] == "path"
    assert shown["sharing"] == {"subscriptions": 3, "path": 2, "shape": 2, "equal": 2}
    assert run("explain", "--ns", "p=urn:x", "/p:a").returncode == 0


def test_explain_shows_what_is_residual_with_a_caret(run: Any) -> None:
    lines = run("explain", "//a/following::b").stdout.splitlines()
    assert lines[3:6] == [
        "because     the axis following is not part of tree patterns",
        "              //a/following::b",
        "                  ^^^^^^^^^^^^",
    ]


def test_long_lines_are_not_broken(run: Any) -> None:
    query = "/" + "/".join(f"element-{n}[@attribute = 'value']" for n in range(20))
    assert f"query       {query}\n" in run("explain", query).stdout


def test_explain_refuses_what_is_no_query(run: Any, folder: Any) -> None:
    done = run("explain", "/a/[")
    assert done.returncode == 2 and done.stderr.splitlines()[1:3] == ["  /a/[", "     ^"]
    folder({"s.txt": "/a\n/b[\n/c]\n"})
    done = run("explain", "-s", "s.txt", "/a")
    assert done.returncode == 2 and "s.txt:2:" in done.stderr and "s.txt:3:" in done.stderr
    done = run("explain", "--dialect", "w3", "/a")
    assert done.returncode == 2 and "did you mean 'w3c'?" in done.stderr


def test_test(run: Any, folder: Any) -> None:
    folder({"order.xml": ORDER})
    done = run("test", "/order/total", "order.xml")
    assert (done.returncode, done.stdout) == (0, "order.xml: match\n  selects /order/total (2:3)\n")
    done = run("test", "/order[total > 100]", "order.xml")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "order.xml: no match",
        "  predicate [total > 100] of step 1, /order, fails at /order (1:1)",
        '    total is "70", not > 100',
        "      /order[total > 100]",
        "             ^^^^^^^^^^^",
    ]


def test_test_as_json(run: Any, folder: Any) -> None:
    folder({"order.xml": ORDER, "other.xml": "<x/>"})
    done = run("test", "--format", "jsonl", "/order/@id", "order.xml", "other.xml")
    assert done.returncode == 0
    yes, no = map(json.loads, done.stdout.splitlines())
    assert (yes["message"], yes["match"], yes["count"], yes["why"]) == ("order.xml", True, 1, None)
    assert yes["selected"] == [{"path": "/order/@id", "line": 1, "column": 1}]
    assert (no["message"], no["match"], no["selected"], no["count"]) == ("other.xml", False, [], None)
    why = no["why"]
    assert why["text"] == "step 1 of 2, /order, finds nothing in the message: the root element is x"
    assert (why["start"], why["end"], why["node"]) == (1, 6, {"path": "/x", "line": 1, "column": 1})


def test_bad_messages_and_queries(run: Any, folder: Any) -> None:
    folder({"bad.xml": "<a>\n<b></a>", "good.xml": "<a/>"})
    done = run("test", "/a", "bad.xml", "missing.xml", "good.xml")
    assert done.returncode == 2
    assert done.stdout.startswith("good.xml: match")
    bad, missing = done.stderr.splitlines()
    assert bad.startswith("bad.xml:2:") and ": mismatched-tag: " in bad
    assert missing.startswith("missing.xml: unreadable: ")
    done = run("test", "/a[", "good.xml")
    assert done.returncode == 2 and done.stderr.splitlines()[1:3] == ["  /a[", "    ^"]
    assert run("test", "/a", "-", "-").returncode == 2
    assert run("test", "--max-depth", "1", "/a", "-", stdin="<a><b/></a>").returncode == 2


def test_stdin_namespaces_and_dialect(run: Any) -> None:
    done = run("test", "--ns", "p=urn:p", "//p:b", "-", stdin="<a><b xmlns='urn:p'/></a>")
    assert (done.returncode, done.stdout) == (0, "-: match\n  selects /a/b (1:4)\n")
    assert run("test", "/a/b[//c]", "-", stdin="<a><b/><c/></a>").returncode == 0
    assert run("test", "--dialect", "tian", "/a/b[//c]", "-", stdin="<a><b/><c/></a>").returncode == 1
