from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from twigcast.cli.inputs import Message, Unreadable, expand, read


def pairs(text: str) -> list[tuple[str, Any]]:
    return [(row["message"], row["subscription"]) for row in map(json.loads, text.splitlines())]


def test_matches_by_message_then_by_subscription(run: Any, folder: Any) -> None:
    folder({"s.txt": "//b\n/a\n/z\n", "m2.xml": "<a><b/></a>", "m1.xml": "<a/>"})
    done = run("match", "-s", "s.txt", "m2.xml", "m1.xml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == '{"message": "m2.xml", "subscription": 1}'
    assert pairs(done.stdout) == [("m2.xml", 1), ("m2.xml", 2), ("m1.xml", 2)]


def test_ids_are_line_numbers_of_the_file(run: Any, folder: Any) -> None:
    folder({"s.txt": "\ufeff# comment\r\n\r\n/a\r\n   # another\n\u2028\n/a\n", "m.xml": "<a/>"})
    assert pairs(run("match", "-s", "s.txt", "m.xml").stdout) == [("m.xml", 3), ("m.xml", 6)]


def test_jsonl_subscriptions(run: Any, folder: Any) -> None:
    lines = [
        {"id": "one", "query": "/p:a", "namespaces": {"p": "urn:x"}},
        {"query": "/q:a"},
        {"id": 7, "query": "/a", "default_namespace": "urn:x"},
        {"id": "é\n", "query": "/*"},
        {"id": "none", "query": "/a"},
    ]
    folder({"s.jsonl": "\n".join(map(json.dumps, lines)), "m.xml": "<a xmlns='urn:x'/>"})
    done = run("match", "-s", "s.jsonl", "--ns", "q=urn:x", "m.xml")
    assert [s for _, s in pairs(done.stdout)] == ["one", 2, 7, "é\n"]


def test_exit_status(run: Any, folder: Any) -> None:
    folder({"s.txt": "/b", "m.xml": "<a/>", "bad.xml": "<a>", "b.xml": "<b/>"})
    assert run("match", "-s", "s.txt", "m.xml").returncode == 1
    assert run("match", "-s", "s.txt", "b.xml").returncode == 0
    assert run("match", "-s", "s.txt", "b.xml", "bad.xml").returncode == 2


def test_a_file_without_subscriptions_is_told(run: Any, folder: Any) -> None:
    folder({"s.txt": "# none yet\n", "p.jsonl": '{"id": 1, "query": "/a", "state": "paused"}', "m.xml": "<a/>"})
    for name in ("s.txt", "p.jsonl"):
        done = run("match", "-s", name, "m.xml")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith(f"warning: {name}: there are no subscriptions, so nothing can match\n")


def test_a_bad_message_is_told_and_the_others_go_on(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a", "1.xml": "<a/>", "2.xml": "<a>\n <b></a>", "3.xml": "<a/>"})
    done = run("match", "-s", "s.txt", "1.xml", "2.xml", "gone.xml", "3.xml")
    assert done.returncode == 2
    assert pairs(done.stdout) == [("1.xml", 1), ("3.xml", 1)]
    told = sorted(done.stderr.splitlines())
    assert told[0].startswith("2.xml:2:5: mismatched-tag: end tag </a>")
    assert told[1] == "gone.xml: unreadable: No such file or directory"


def test_folders_are_walked_in_order_without_hidden_files(run: Any, folder: Any, tmp_path: Path) -> None:
    folder(
        {"s.txt": "/a"}
        | {f"in/{n}": "<a/>" for n in ("z.xml", "b/2.xml", "b/1.xml", "a.txt", ".hidden", ".git/x.xml", "b.xml")}
    )
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    os.mkfifo(tmp_path / "in" / "pipe")
    done = run("match", "-s", "s.txt", "in/", "in/a.txt")
    names = ["in/a.txt", "in/b/1.xml", "in/b/2.xml", "in/b.xml", "in/z.xml", "in/a.txt"]
    assert [m for m, _ in pairs(done.stdout)] == names


def test_stdin(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a", "m.xml": "<a/>"})
    assert pairs(run("match", "-s", "s.txt", "-", stdin="<a/>").stdout) == [("-", 1)]
    assert pairs(run("match", "-s", "-", "m.xml", stdin="/b\n/a").stdout) == [("m.xml", 2)]
    assert pairs(run("match", "-s", "-", "m.xml", stdin='{"id": "x", "query": "/a"}').stdout) == [("m.xml", "x")]
    done = run("match", "-s", "-", "-")
    assert done.returncode == 2 and "once only" in done.stderr


def test_all_bad_subscriptions_are_told_with_their_place(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a\n/a/[\n\n/p:b\n/c\n", "m.xml": "<a/>"})
    done = run("match", "-s", "s.txt", "m.xml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "s.txt:2: unexpected-token" in done.stderr
    assert "\n  /a/[\n     ^" in done.stderr
    assert "s.txt:4: undeclared-prefix" in done.stderr


def test_many_bad_subscriptions_are_counted(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a/[\n" * 50, "m.xml": "<a/>"})
    done = run("match", "-s", "s.txt", "m.xml")
    assert done.stderr.count("unexpected-token") == 20
    assert "s.txt: … and 30 more bad lines" in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"query": "/a"', "s.jsonl:2: bad-json: "),
        ('["/a"]', "s.jsonl:2: bad-json: a subscription is an object"),
        ('{"quer": "/a"}', "there is no key 'quer'\nhint: did you mean 'query'?"),
        ('{"id": 3}', 'the key "query" is missing'),
        ('{"query": 3}', '"query" must be a string'),
        ('{"id": 1.5, "query": "/a"}', '"id" must be a string or a whole number, not 1.5'),
        ('{"id": true, "query": "/a"}', "not true"),
        ('{"id": 99999999999999999999, "query": "/a"}', "64 bits"),
        ('{"id": 1, "query": "/a"}', "s.jsonl:2: duplicate-id: the id 1 is that of line 1 already"),
        ('{"query": "/a", "namespaces": ["p"]}', "bad-namespaces"),
        ('{"query": "/a", "default_namespace": 5}', "bad-namespaces"),
        (b'{"query": "/\xff"}', "s.jsonl:2: bad-encoding: byte 13 of the line is not UTF-8"),
        ("[" * 100_000, "s.jsonl:2: bad-json: "),
    ],
)
def test_bad_jsonl(run: Any, folder: Any, line: str | bytes, words: str) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    folder({"s.jsonl": b'{"id": 1, "query": "/a"}\n' + raw, "m.xml": "<a/>"})
    done = run("match", "-s", "s.jsonl", "m.xml")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_subscriptions_and_bad_options(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a", "m.xml": "<a/>"})
    done = run("match", "-s", "none.txt", "m.xml")
    assert (done.returncode, done.stderr) == (2, "unreadable: none.txt: No such file or directory\n")
    done = run("match", "-s", "s.txt", "--format", "xml", "m.xml")
    assert done.returncode == 2 and "use one of jsonl, table" in done.stderr
    assert run("match", "-s", "s.txt", "--ns", "p", "m.xml").returncode == 2
    assert run("match", "-s", "s.txt", "--max-depth", "0", "m.xml").returncode == 2
    assert run("match", "-s", "s.txt", "--max-depth", "x", "m.xml").returncode == 2
    assert run("match", "-s", "s.txt").returncode == 2


def test_limits(run: Any, folder: Any) -> None:
    folder({"s.txt": "//b", "m.xml": "<a><b/></a>"})
    assert run("match", "-s", "s.txt", "--max-depth", "2", "m.xml").returncode == 0
    done = run("match", "-s", "s.txt", "--max-depth", "1", "m.xml")
    assert done.returncode == 2 and "m.xml:1:4: limit-depth" in done.stderr


def test_table(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a\n/b", "m.xml": "<a/>"})
    done = run("match", "--format", "table", "-s", "s.txt", "m.xml")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["message", "subscription", "query"],
        ["m.xml", "1", "/a"],
    ]
    assert "no matches" in run("match", "--format", "table", "-s", "s.txt", "-", stdin="<z/>").stdout


def test_a_table_cuts_no_names(run: Any, folder: Any) -> None:
    name = "n" * 90 + ".xml"
    folder({"s.txt": "/a", name: "<a/>"})
    lines = run("match", "--format", "table", "-s", "s.txt", name).stdout.splitlines()
    assert "".join(line.split()[0] for line in lines[1:]) == name


def test_a_long_table_says_what_it_leaves_out(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a\n" * 1_500, "m.xml": "<a/>"})
    assert "… and 500 more" in run("match", "--format", "table", "-s", "s.txt", "m.xml").stdout


def test_names_that_are_not_utf8(run: Any, folder: Any, tmp_path: Path) -> None:
    folder({"s.txt": "/a", "in/é.xml": "<a/>"})
    try:
        (tmp_path / "in" / os.fsdecode(b"\xff.xml")).write_bytes(b"<a/>")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    done = run("match", "-s", "s.txt", "in")
    assert {name for name, _ in pairs(done.stdout)} == {"in/é.xml", "in/\udcff.xml"}


def test_links_in_a_folder_are_skipped(run: Any, folder: Any, tmp_path: Path) -> None:
    folder({"s.txt": "/a", "in/1.xml": "<a/>", "in/sub/2.xml": "<a/>", "other/3.xml": "<a/>"})
    (tmp_path / "in" / "3.xml").symlink_to(tmp_path / "other" / "3.xml")
    (tmp_path / "in" / "sub" / "loop").symlink_to(tmp_path / "in")
    done = run("match", "-s", "s.txt", "in")
    assert pairs(done.stdout) == [("in/1.xml", 1), ("in/sub/2.xml", 1)]
    assert "warning: in: skipped 2 symbolic links; name them on the command line to read them" in done.stderr
    assert pairs(run("match", "-s", "s.txt", "in/3.xml").stdout) == [("in/3.xml", 1)]


def test_a_link_that_takes_the_place_of_a_listed_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.xml").write_text("<a/>")
    (tmp_path / "secret").write_text("secret")
    [name] = expand([str(tmp_path / "in")])
    (tmp_path / "in" / "1.xml").unlink()
    (tmp_path / "in" / "1.xml").symlink_to(tmp_path / "secret")
    assert isinstance(next(read([name])), Unreadable)
    assert isinstance(next(read([str(tmp_path / "in" / "1.xml")])), Message)


def test_more_messages_than_a_batch(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a\n//b"} | {f"in/{i:04}.xml": "<a/>" if i % 2 else "<a><b/></a>" for i in range(2_500)})
    expected = [(f"in/{i:04}.xml", s) for i in range(2_500) for s in ((1,) if i % 2 else (1, 2))]
    assert pairs(run("match", "-s", "s.txt", "in").stdout) == expected


def test_unreadable_file_keeps_its_place(run: Any, folder: Any) -> None:
    folder({"s.txt": "/a", "1.xml": "<a", "3.xml": "<a"})
    told = run("match", "-s", "s.txt", "1.xml", "2.xml", "3.xml").stderr.splitlines()
    assert [line[:5] for line in told] == ["1.xml", "2.xml", "3.xml"]


def test_a_closed_pipe_is_no_error(folder: Any, tmp_path: Path) -> None:
    folder({"s.txt": "/a\n" * 50_000, "m.xml": "<a/>"})
    command = f"{sys.executable} -m twigcast.cli match -s s.txt m.xml m.xml m.xml | head -1"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def test_ctrl_c_ends_quietly(folder: Any, tmp_path: Path) -> None:
    folder({"m.xml": "<a/>"})
    os.mkfifo(tmp_path / "s.txt")
    process = subprocess.Popen(
        [sys.executable, "-m", "twigcast.cli", "match", "-s", "s.txt", "m.xml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # tests in the background have it ignored
    )
    with (tmp_path / "s.txt").open("w"):  # which waits until the program has come to read it
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors


def test_yfilter_simple_paths(run: Any, shared_data: Path) -> None:
    tests = shared_data / "yfilter-nitf" / "tests"
    expected = json.loads((tests / "expected_matches.json").read_text())["test_simple_paths"]
    queries = tests / "test_simple_paths" / "queries.txt"
    done = run("match", "-s", queries, tests / "xmldocs")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, list[int]] = {name: [] for name in expected}
    for name, id in pairs(done.stdout):
        found[Path(name).name].append(id)
    assert found == expected


@pytest.mark.parametrize(
    "option", ["--mode=nfa", "--predicates=inline", "--no-share-plans", "--strategy=mmqjp", "--plan=share"]
)
def test_options_of_the_papers_are_elsewhere(run: Any, folder: Any, option: str) -> None:
    folder({"s.txt": "/a\n", "m.xml": "<a/>"})
    done = run("match", option, "-s", "s.txt", "m.xml")
    assert done.returncode == 2
    assert "moved-option" in done.stderr and "docs/papers.md" in done.stderr and "Traceback" not in done.stderr


def test_help_shows_few_options_in_groups(run: Any) -> None:
    shown = run("match", "--help").stdout
    options = [line for line in shown.splitlines() if line.startswith("  -")]
    assert 10 < len(options) <= 20
    for heading in ("Options:", "Streams and correlations:", "Schema:", "Relational engine:"):
        assert heading in shown
    assert "--max-depth" in shown  # named, not listed one by one


def test_results(run: Any, folder: Any) -> None:
    lines = [
        {"id": "n", "query": "//b", "result": "nodes"},
        {"id": "d", "query": "//b | //@x"},
        {"id": "m", "query": "count(//b) = 2", "result": "match"},
    ]
    folder({"s.jsonl": "\n".join(map(json.dumps, lines)), "m.xml": '<a><b x="é\n&lt;"/><b>\n</b></a>', "n.xml": "<b/>"})
    done = run("match", "-s", "s.jsonl", "--result", "fragments", "m.xml", "n.xml")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(map(json.loads, done.stdout.splitlines())) == [
        {"message": "m.xml", "subscription": "n", "nodes": [2, 4]},
        {"message": "m.xml", "subscription": "d", "fragments": ['<b x="é\n&lt;"/>', "é &lt;", "<b>\n</b>"]},
        {"message": "m.xml", "subscription": "m"},
        {"message": "n.xml", "subscription": "n", "nodes": [1]},
        {"message": "n.xml", "subscription": "d", "fragments": ["<b/>"]},
    ]
    cut = run("match", "-s", "s.jsonl", "--max-result-nodes", "1", "m.xml").stdout.splitlines()
    said = {"complete": False, "reason": "limit-result-nodes"}
    assert json.loads(cut[0]) == {"message": "m.xml", "subscription": "n", "nodes": [2], **said}
    table = run("match", "-s", "s.jsonl", "--format", "table", "m.xml").stdout.splitlines()
    assert table[0].split() == ["message", "subscription", "query", "selected"]
    assert table[1].split() == ["m.xml", "n", "//b", "2", "4"]


def test_bad_results_are_told(run: Any, folder: Any) -> None:
    folder({"s.txt": "//b\ncount(//b)\n", "s.jsonl": '{"query": "//b", "result": "node"}', "m.xml": "<b/>"})
    done = run("match", "-s", "s.txt", "--result", "nodes", "m.xml")
    assert done.returncode == 2
    assert "s.txt:2: not-a-node-set: " in done.stderr
    done = run("match", "-s", "s.jsonl", "m.xml")
    assert "s.jsonl:1: unknown-result: there is no result 'node'" in done.stderr
    assert "did you mean 'nodes'?" in run("match", "-s", "s.txt", "--result", "node", "m.xml").stderr


def test_results_that_the_budget_cuts_say_so(run: Any, tmp_path: Path) -> None:
    lines = [json.dumps({"id": i, "query": "//a", "result": "fragments"}) for i in range(3)]
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    (tmp_path / "m.xml").write_bytes(b"<m>" + b"<a>xxxxxxxx</a>" * 100 + b"</m>")
    done = run("match", "-s", "s.jsonl", "m.xml", "--max-message-result-bytes", "300")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(len(row["fragments"]), row["complete"], row["reason"]) for row in rows] == [(6, False, "budget-bytes")] * 3
