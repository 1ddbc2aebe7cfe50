"""Mistakes on the command line and in files: what, where, and what to write instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from twigcast import Engine
from twigcast.engine.files import SubscriptionFileError, compile_file, read_subscriptions
from twigcast.errors import OptionError
from twigcast.workload import DocumentGenerator, QueryGenerator, QuerySettings, vocabulary


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--skew", "nan"], "from 0 to 10"),
        (["--skew", "inf"], "0<=x<=10"),
        (["-n", "99999999999"], "0<=x<=10000000"),
        (["--prefix", "a:b"], "'a:b' is not a namespace prefix"),
        (["--prefix", ""], "'' is not a namespace prefix"),
        (["--depth", "100000"], "from 1 to 1000"),
        (["--predicates", "5000"], "from 0 to 100"),
    ],
)
def test_generate_names_the_right_values(run: Any, options: list[str], told: str) -> None:
    done = run("generate", "queries", "--vocabulary", "bib", *options)
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr


def test_generators_name_the_right_values() -> None:
    with pytest.raises(OptionError, match="from 0 to 10"):
        QueryGenerator(vocabulary("bib"), QuerySettings(skew=float("nan")))
    with pytest.raises(OptionError, match="from 1 to 100000"):
        DocumentGenerator(vocabulary("bib"), depth=10**9)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("xml=urn:x", "the prefix 'xml' cannot be declared"),
        ("xmlns=urn:x", "the prefix 'xmlns' cannot be declared"),
        ("a:b=urn:x", "'a:b' is not a prefix"),
        ("1=urn:x", "'1' is not a prefix"),
        ("p=a{b", "is not a namespace"),
    ],
)
def test_namespace_options(run: Any, folder: Any, given: str, told: str) -> None:
    folder({"s.txt": "/a", "m.xml": "<a/>"})
    done = run("match", "-s", "s.txt", "--ns", given, "m.xml")
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("given", [5, "p", [("p", "u")], {5: "u"}, {"": "u"}, {"p": 5}, {"p": "\ud800"}, {"a b": "u"}])
def test_namespaces_in_the_api(given: Any) -> None:
    with pytest.raises(OptionError) as raised:
        Engine().add("/a[b]", namespaces=given)
    assert raised.value.code == "bad-namespace"
    with pytest.raises(OptionError):
        Engine(namespaces=given)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (r'{"query": "/p:a", "namespaces": {"p": "\ud800"}}', "bad-namespace"),
        (r'{"query": "/a", "default_namespace": "\udfff"}', "bad-namespace"),
        (r'{"query": "/a", "namespaces": {"xml": "urn:x"}}', "bad-namespace"),
        (r'{"query": "/a", "id": "\ud800"}', "bad-id"),
        (r'{"query": "/a", "id": 1e3}', "bad-id"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"query": "/b"}\n' + line + "\n")
    with pytest.raises(SubscriptionFileError) as raised:
        compile_file(read_subscriptions(path))
    assert str(raised.value).startswith(f"{path}:2: {told}")
    str(raised.value).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_on_any_system(tmp_path: Path, end: str) -> None:
    path = tmp_path / "s.txt"
    path.write_bytes(end.join(["# two", "/a", "", "/b\u2028[c]"]).encode())
    assert [(s.id, s.query) for s in read_subscriptions(path).subscriptions] == [(2, "/a"), (4, "/b\u2028[c]")]


@pytest.mark.skipif(os.name != "posix", reason="a shell's >&-")
def test_a_closed_stdout_is_told(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text("<a/>")
    command = f"{sys.executable} -m twigcast.cli validate m.xml >&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr == "error: stdout is closed\n"
