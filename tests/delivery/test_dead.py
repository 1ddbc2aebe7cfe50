"""Dead letters: kept whole, shown, put back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from batches import SINKS, commit, in_lines, pipeline
from click.testing import CliRunner, Result
from hooks import serving

from twigcast.cli.dead import dead
from twigcast.config import ConfigError
from twigcast.delivery import dead as module
from twigcast.delivery.dead import Cause, DeadLetters
from twigcast.delivery.runner import Runner
from twigcast.errors import OptionError

CONFIG = """
[state]
path = "state"
[streams.s]
source = "rate"
[sinks.hook]
kind = "webhook"
url = "{url}"
allow = ["127.0.0.1/32"]
max_attempts = 2
backoff = "10 ms"
"""


def call(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(dead, [*arguments, "-c", str(folder / "pipeline.toml")])


def configured(folder: Path, url: str) -> None:
    (folder / "pipeline.toml").write_text(CONFIG.format(url=url))


def deliver(folder: Path) -> None:
    from twigcast.config import load

    with Runner(load(folder / "pipeline.toml")) as runner:
        assert runner.drain()


def test_nothing_there(tmp_path: Path) -> None:
    configured(tmp_path, "http://localhost:1")
    assert "0 dead letters" in call(tmp_path, "list", "--format", "table").output
    assert isinstance(call(tmp_path, "show", "1").exception, OptionError)
    assert "0 put back" in call(tmp_path, "redrive", "--all").output
    assert not (tmp_path / "state").exists()


def test_no_secret_is_needed_to_look(tmp_path: Path) -> None:
    from twigcast.cli.status import status

    configured(tmp_path, "https://hooks.example/")
    file = tmp_path / "pipeline.toml"
    text = file.read_text() + 'secret = "${NOT_SET_HERE}"\n[store]\nurl = "postgresql://me:${NOR_THIS}@db/x"\n'
    file.write_text(text)
    assert "0 dead letters" in call(tmp_path, "list", "--format", "table").output
    assert "0 put back" in call(tmp_path, "redrive", "--all").output
    ran = CliRunner().invoke(status, [str(file), "--format", "table"])
    assert ran.exit_code == 1 and "not run yet" in ran.output
    # What else is wrong is told, and so is a variable without which the state cannot be found.
    for wrong, words in (('[sinks.x]\nkind = "nope"\n', "sinks.x.kind"), ("", "NOT_SET_HERE")):
        file.write_text((text + wrong) if wrong else text.replace('"state"', '"${NOT_SET_HERE}"'))
        error = call(tmp_path, "list").exception
        assert isinstance(error, ConfigError) and words in str(error)


def test_list_show_redrive(tmp_path: Path) -> None:
    with serving(lambda request: 500) as hooks:
        configured(tmp_path, hooks.url)
        settings = pipeline(tmp_path, {"hook": {"kind": "stdout"}})
        commit(settings, 0, [("m", "q", "alice")], dead=[("bad", b"<a>\xe9"), ("worse", "<ü".encode())])
        deliver(tmp_path)
        listed = [json.loads(line) for line in call(tmp_path, "list", "--format", "jsonl").output.splitlines()]
        by = {row["message"]: row for row in listed}
        assert [row["message"] for row in listed if row["kind"] == "message"] == ["worse", "bad"]
        assert by["m"]["reason"] == "webhook-attempts" and by["m"]["attempts"] == 2 and by["m"]["sink"] == "hook"
        assert by["m"]["text"] == "HTTP status 500" and by["m"]["subscriber"] == "alice"
        table = call(tmp_path, "list", "--format", "table").output
        assert "bad-tag" in table and "3 dead letters" in table
        assert len(call(tmp_path, "list", "--kind", "message", "--format", "jsonl").output.splitlines()) == 2
        assert len(call(tmp_path, "list", "--sink", "hook", "--format", "jsonl").output.splitlines()) == 1
        assert len(call(tmp_path, "list", "--limit", "1", "--format", "jsonl").output.splitlines()) == 1

        shown = call(tmp_path, "show", str(by["worse"]["id"])).output
        assert "<ü" in shown and "bad-tag" in shown
        assert "base64: PGE+6Q==" in call(tmp_path, "show", str(by["bad"]["id"])).output
        assert call(tmp_path, "show", str(by["bad"]["id"]), "--original").stdout_bytes == b"<a>\xe9"
        with pytest.raises(OptionError, match="no dead letter 99"):
            raise call(tmp_path, "show", "99").exception or AssertionError

        hooks.behaviour = lambda request: 200
        assert call(tmp_path, "redrive", str(by["m"]["id"]), str(by["bad"]["id"])).output == "2 put back\n"
        [file] = (tmp_path / "state" / "redrive" / "s").iterdir()
        assert file.read_bytes() == b"<a>\xe9"
        deliver(tmp_path)
        assert [request.headers["webhook-id"] for request in hooks.accepted] == [by["m"]["delivery"]]
        left = [json.loads(line) for line in call(tmp_path, "list", "--format", "jsonl").output.splitlines()]
        assert [row["message"] for row in left] == ["worse"]
        assert len(call(tmp_path, "list", "--redriven", "--format", "jsonl").output.splitlines()) == 3


def test_redriven_in_vain_is_open_again(tmp_path: Path) -> None:
    with serving(lambda request: 500) as hooks:
        configured(tmp_path, hooks.url)
        commit(pipeline(tmp_path, {"hook": {"kind": "stdout"}}), 0, [("m", "q", "alice")])
        for attempts in (2, 4):
            deliver(tmp_path)
            [row] = [json.loads(line) for line in call(tmp_path, "list", "--format", "jsonl").output.splitlines()]
            assert row["attempts"] == attempts
            assert call(tmp_path, "redrive", "--all", "--reason", "webhook-attempts").output == "1 put back\n"
            assert call(tmp_path, "redrive", "--all").output == "0 put back\n"


def test_mistakes(tmp_path: Path) -> None:
    configured(tmp_path, "http://localhost:1")
    assert call(tmp_path, "redrive").exit_code == 2
    assert call(tmp_path, "redrive", "1", "--all").exit_code == 2
    assert call(tmp_path, "redrive", "1", "--sink", "x").exit_code == 2
    settings = pipeline(tmp_path, {"gone": {"kind": "stdout"}})
    commit(settings, 0, [], dead=[("bad", b"<")], stream="other")
    with Runner(pipeline(tmp_path, {"gone": {"kind": "stdout"}}, stream="other")) as runner:
        assert runner.drain()
    for option, wrong, known in (
        ("--reason", "bad-tags", "the reasons are: bad-tag"), ("--stream", "o", "the streams are: other, s"),
        ("--sink", "x", "the sinks are: hook"),
    ):  # fmt: skip
        error = call(tmp_path, "redrive", "--all", option, wrong).exception
        assert isinstance(error, OptionError) and error.code == f"no-such-{option[2:]}" and known in str(error.hint)
    error = call(tmp_path, "redrive", "--all").exception
    assert isinstance(error, OptionError) and "stream 'other'" in str(error) and "it has: s" in str(error)


def test_large_originals_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 1000)
    settings = pipeline(tmp_path, {"lines": SINKS["lines"]})
    commit(settings, 0, [], dead=[("large", b"<" * 1000), ("small", b"<")])
    with Runner(settings) as runner:
        assert runner.drain()
    letters = DeadLetters(settings.state.dead)
    found = {letter.message: letter.id for letter in letters.letters()}
    assert letters.original(found["large"]) == b"<" * 1000 and letters.original(found["small"]) == b"<"
    assert len(list((settings.state.path / "dead").iterdir())) == 1
    assert letters.counts() == {Cause("message", "bad-tag", "s", ""): 2}
    letters.delete(list(found.values()))
    assert letters.count() == 0 and not list((settings.state.path / "dead").iterdir())
    letters.close()
    assert in_lines(tmp_path / "lines") == []


@pytest.mark.parametrize("id", [7, 2**63, 99999999999999999999, -(2**70)])
def test_a_letter_that_is_not_there(tmp_path: Path, id: int) -> None:
    letters = DeadLetters(tmp_path / "dead.db")
    with pytest.raises(OptionError, match=f"there is no dead letter {id}"):
        letters.letter(id)
    letters.close()
