from __future__ import annotations

import json
from typing import Any


def test_jsonl(run: Any, folder: Any) -> None:
    folder({"1.xml": "<a/>", "2.xml": "<a>\n<b x=1/></a>"})
    done = run("validate", "1.xml", "2.xml", "3.xml")
    assert done.returncode == 2
    good, bad, gone = map(json.loads, done.stdout.splitlines())
    assert good == {"message": "1.xml", "ok": True, "error": None}
    assert (bad["message"], bad["ok"]) == ("2.xml", False)
    assert set(bad["error"]) == {"code", "line", "column", "text"}
    assert bad["error"]["line"] == 2
    assert gone["error"]["code"] == "unreadable" and gone["error"]["line"] is None
    assert done.stderr.splitlines()[0].startswith(f"2.xml:2:{bad['error']['column']}: {bad['error']['code']}: ")


def test_exit_status_and_table(run: Any, folder: Any) -> None:
    folder({"in/1.xml": "<a/>", "in/2.xml": "<b/>", "bad.xml": ""})
    done = run("validate", "--format", "table", "in")
    assert (done.returncode, done.stdout) == (0, "in/1.xml: ok\nin/2.xml: ok\n2 ok, 0 not\n")
    done = run("validate", "--format", "table", "in", "bad.xml")
    assert done.returncode == 2 and "bad.xml:1:1: " in done.stdout and done.stderr == ""


def test_stdin_and_limits(run: Any) -> None:
    assert run("validate", "-", stdin="<a/>").returncode == 0
    done = run("validate", "--max-bytes", "1K", "-", stdin=f"<a>{'x' * 2000}</a>")
    assert done.returncode == 2 and "limit-size" in done.stdout
    assert run("validate").returncode == 2
