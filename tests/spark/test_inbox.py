"""``twigcast run --inbox``: a folder in, a folder out."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from spark_results import pairs, read_lines, run_inbox

from twigcast import config
from twigcast.cli.match import match
from twigcast.cli.run import run
from twigcast.correlate.making import derived_id
from twigcast.delivery.dead import DeadLetters
from twigcast.delivery.files import claimed
from twigcast.errors import OptionError, TwigcastError
from twigcast.spark.stages.outcome import of_fragments, of_nodes

# The subscriptions of every kind, and messages of two streams.
SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"id": "path", "query": "//line/sku"},
    {"id": 7, "query": 'count(//line) > 1 and //sku = "desk"'},
    {"id": "residual", "query": "//sku[. = following::sku]", "result": "fragments"},
    {"id": "tian", "query": "/order[//sku]", "dialect": "tian"},
    {"id": "of-orders", "query": "/*", "stream": "orders"},
    {"id": "of-payments", "query": "/*", "stream": "payments", "result": "nodes"},
    {"id": "nodes", "query": "//line", "result": "nodes"},
    {"id": "one", "query": "/order/total", "result": "fragments"},
    {"id": "many", "query": "//sku", "result": "fragments"},
    {"id": "attributes", "query": "//@at", "result": "fragments"},
    {"id": "namespaces", "query": "//p:payment/@order", "result": "fragments"},
    {"id": "transform", "query": "<dear>{ for $l in //line where $l/price > 9 return $l/sku }</dear>"},
    {"id": "empty", "query": "<none>{ for $x in //nowhere return $x }</none>", "deliver_empty": True},
    {"id": "join", "query": "orders//order->o[@id->i] FOLLOWED BY{i = j, 5 min} payments//p:payment->p[@order->j]"},
    {
        "id": "publish",
        "query": "orders//order->o[@id->i] JOIN{i = j, INF} payments//p:payment->p[@order->j] PUBLISH paid",
    },
    {"id": "derived", "query": "//total", "stream": "paid", "result": "fragments"},
    {"id": "paused", "query": "/*", "state": "paused"},
]
LINE = "<line><sku>{}</sku><price>{}</price></line>"
ORDERS = {
    "o1.xml": f'<order id="1" at="100"><total>12</total>{LINE.format("desk", 10)}{LINE.format("pen", 2)}</order>',
    "o2.xml": f'<order id="2" at="200">{LINE.format("pen", 1)}{LINE.format("pen", 20)}<total/></order>',
    "o3.xml": '<order id="3" at="150"><total>3</total>',
    "o4.xml": '<order id="4"/>',
}
PAYMENTS = {
    "p1.xml": '<payment xmlns="urn:p" order="1" at="130"/>',
    "p2.xml": '<p:payment xmlns:p="urn:p" order="2" at="9000"/>',
}


def put(folder: Path, messages: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in messages.items():
        (folder / name).write_text(text)


def as_printed(lines: list[dict[str, Any]]) -> Counter[tuple[str, str, bytes | None]]:
    """What ``match`` printed, as deliveries: message, subscription, and the payload if there is one."""
    found: Counter[tuple[str, str, bytes | None]] = Counter()
    results: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for line in lines:
        subscription, payload = str(line["subscription"]), line.get("payload")
        content = None if payload is None else payload.encode()
        if "fragments" in line:
            content = of_fragments([text.encode() for text in line["fragments"]])
        elif "nodes" in line:
            content = of_nodes(line["nodes"])
        message = line.get("message")
        if "messages" in line:
            key = subscription, tuple(line["messages"])
            results[key] += 1
            message = derived_id(*key, results[key])
        found[message, subscription, content] += 1
    return found


def test_what_is_delivered_is_what_match_prints(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "orders", ORDERS)
    put(tmp_path / "payments", PAYMENTS)
    put(tmp_path / "all", {**ORDERS, **PAYMENTS})
    (tmp_path / "subs.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in SUBSCRIPTIONS))
    options = ["-s", str(tmp_path / "subs.jsonl"), "--time", "/*/@at", "--ns", "p=urn:p"]
    monkeypatch.chdir(tmp_path / "all")  # so that messages have the same names
    of = [f"--stream=orders={name}" for name in ORDERS] + [f"--stream=payments={name}" for name in PAYMENTS]
    printed = CliRunner().invoke(match, [*options, *of, "--format", "jsonl"], catch_exceptions=False)
    monkeypatch.chdir(tmp_path)
    folders = ["--inbox", "orders=orders", "--inbox", "payments=payments", "--outbox", "out", "--once"]
    ran = CliRunner().invoke(run, [*options, *folders], catch_exceptions=False)
    assert ran.exit_code == printed.exit_code == 2, ran.output
    delivered: Counter[tuple[str, str, bytes | None]] = Counter()
    for line in read_lines(tmp_path / "out" / "matches"):
        content = line.get("content")
        delivered[line["message"], line["subscription"], None if content is None else content.encode()] += 1
    expected = as_printed([json.loads(line) for line in printed.stdout.splitlines()])
    assert delivered == expected
    silent = {str(one["id"]) for one in SUBSCRIPTIONS} - {subscription for _, subscription, _ in expected}
    assert silent == {"paused"}  # each kind has been seen
    file = tmp_path / "out" / "_checkpoint" / "pipeline.toml"
    assert f"twigcast dead list -c {file}" in ran.stderr
    with closing(DeadLetters(config.outline(file).state.dead)) as dead:
        reasons = {letter.message: letter.reason for letter in dead.letters()}
    assert reasons == {"o3.xml": "unclosed-element", "o4.xml": "no-time"}


ODD_NAMES = [
    "b c.xml",
    "d%20e.xml",
    "ü.xml",
    "h#i.xml",
    "q?.xml",
    "[1].xml",
    "*.xml",
    "{x,y}.xml",
    "10:00:00.xml",
    'q".xml',
]


def test_names_limits_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    site = tmp_path / "k=v ${HOME} [1]"
    inbox, out, subscriptions = site / "in *", site / "out #?%20", tmp_path / "subs.txt"
    put(inbox, dict.fromkeys([*ODD_NAMES, "_hidden.xml", "part.xml.tmp"], "<a/>"))
    put(inbox / "sub" / "deep", {"z.xml": "<a/>"})
    (inbox / "packed.xml.gz").write_bytes(gzip.compress(b"<a/>") + gzip.compress(b"<!-- a second member -->"))
    (inbox / "bomb.gz").write_bytes(gzip.compress(b" " * 3_000_000))
    put(inbox, {"large.xml": f"<a>{'x' * 1000}</a>", "empty.xml": ""})
    subscriptions.write_text("# none\n/a\n\n/b\n")
    ran = run_inbox(inbox, out, subscriptions, "--max-bytes", 1000, "--max-files", 5)
    assert ran.exit_code == 2, ran.output
    good = sorted([*ODD_NAMES, "sub/deep/z.xml", "packed.xml.gz"])
    assert pairs(out) == [(name, "2") for name in good]
    with closing(DeadLetters(out / "_checkpoint" / "dead.db")) as dead:
        assert {letter.message for letter in dead.letters()} == {"bomb.gz", "large.xml", "empty.xml"}

    # Moved together, the folders are the same pipeline. Subscriptions are those of the new file alone.
    site = site.rename(tmp_path / "elsewhere")
    inbox, out = site / inbox.name, site / out.name
    put(inbox, {"late.xml": "<a/>", ODD_NAMES[0]: "<changed/>"})
    os.utime(inbox / "late.xml", (1e9, 1e9))  # moved in with its old date: still new to us
    subscriptions.write_text("/a\n")
    assert run_inbox(inbox, out, subscriptions).exit_code == 0
    assert pairs(out) == sorted([*((name, "2") for name in good), ("late.xml", "1")])
    assert run_inbox(inbox, out, subscriptions).exit_code == 1


# Wrong inputs are refused before Spark starts.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "subs.txt").write_text("/a\n")
    return tmp_path


@pytest.mark.parametrize(
    ("inbox", "outbox", "words"),
    [
        ("absent", "out", "there is no folder"),
        ("file", "out", "there is no folder|not a folder"),
        ("in", "file", "must be a folder, and .*file is a file"),
        ("in", "file/out", "must be a folder, and .*file is a file"),
        ("in", "in/out", "lies in the folder that the stream 'inbox' reads"),
        ("in", "in", "lies in the folder that the stream 'inbox' reads"),
        ("correlations=in", "out", "no stream can be named 'correlations'"),
    ],
)
def test_wrong_folders(folder: Path, monkeypatch: pytest.MonkeyPatch, inbox: str, outbox: str, words: str) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(TwigcastError, match=words):
        run_inbox(Path(inbox), Path(outbox), Path("subs.txt"))


def test_wrong_subscriptions(folder: Path) -> None:
    (folder / "bad.jsonl").write_text('{"id": 1, "query": "/a"}\n\n{"id": 2, "query": "//a["}\n')
    with pytest.raises(TwigcastError, match=r"bad\.jsonl:3: "):
        run_inbox(folder / "in", folder / "out", folder / "bad.jsonl")


def test_one_run_at_a_time(folder: Path) -> None:
    with claimed(folder / "out" / "_checkpoint"), pytest.raises(OptionError, match="another run is using"):
        run_inbox(folder / "in", folder / "out", folder / "subs.txt")


def test_options_that_do_not_go_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for words, *options in [
        ("cannot be combined with --inbox", "pipeline.toml", "--inbox", "in"),
        ("cannot be combined with --inbox", "pipeline.toml", "--max-bytes", "5"),
        ("give a configuration, or --inbox, --outbox and -s", "--inbox", "in", "--outbox", "out"),
        ("name each of several streams", "--inbox", "in", "--inbox", "in", "--outbox", "out", "-s", "subs.txt"),
        ("must be FOLDER or NAME=FOLDER", "--inbox", "a="),
    ]:
        ended = CliRunner().invoke(run, options)
        assert ended.exit_code == 2 and words in ended.output, ended.output


def test_an_outbox_of_an_earlier_version_goes_on(spark: SparkSession, earlier_folder: Path) -> None:
    """The inbox runtime of commit f693179 left Spark's checkpoint and a ledger of its last batch."""
    out = earlier_folder / "out"
    state = out / "_checkpoint"
    shutil.copytree(earlier_folder / "twigcast-state" / "checkpoints" / "orders", state / "spark")
    (out / "matches").mkdir()
    (out / "matches" / "batch-00000000-0000.jsonl").write_text('{"message": "1.xml", "subscription": 1}\n')
    # It was killed after its ledger was written and before the part was moved.
    part = state / "staging" / "run" / "attempt.matches"
    part.parent.mkdir(parents=True)
    part.write_text('{"message": "3.xml", "subscription": 1}\n')
    moves = [["_checkpoint/staging/run/attempt.matches", "matches/batch-00000001-0000.jsonl"]]
    (state / "batch.json").write_text(json.dumps({"batch": 1, "counts": {}, "moves": moves}))
    (state / "source.json").write_text(json.dumps({"inbox": str(earlier_folder / "inbox"), "relative": "../inbox"}))
    (earlier_folder / "inbox" / "4.xml").write_text("<order/>")
    (earlier_folder / "subs.txt").write_text("/*\n")
    before = [("1.xml", 1), ("3.xml", 1)]
    assert run_inbox(earlier_folder / "inbox", out, earlier_folder / "subs.txt").exit_code == 0
    assert sorted(pairs(out), key=str) == [*before, ("4.xml", "1")]
    assert run_inbox(earlier_folder / "inbox", out, earlier_folder / "subs.txt").exit_code == 1
    assert not (state / "batch.json").exists() and not (state / "spark").exists()
