"""A document of 2 GB, generated on the fly: matched within 500 MB, and its errors found where they are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
from twigcast.chunk.prepare import prepare
from twigcast.chunk.run import Options, match
from twigcast.engine import Subscription

size, broken = int(sys.argv[1]), sys.argv[2] == "broken"
item = b'<item id="%d"><name>alpha beta</name><price>%d</price><text>' + b"lorem ipsum dolor " * 60
block = b"".join(item % (i, i % 500) + b"</text></item>\\n" for i in range(3000))
count = size // len(block)

def source():
    yield b'<?xml version="1.0"?>\\n<catalogue>\\n'
    for _ in range(count):
        yield block
    yield b"<item><name>the last one</name></item>" + (b"</oops>" if broken else b"\\n</catalogue>")

queries = ["/catalogue/item[price > 400]/name", "//name", "/catalogue/item[name = 'the last one']", "/catalogue/none"]
queries += [f"/catalogue/item[price = {i}]" for i in range(0, 500, 10)] + ["not(//none)"]
scheme = prepare([Subscription(i, query) for i, query in enumerate(queries)], chunks=3)
report = match(source, lambda _: scheme, Options(jobs=2))
error = report.error and [report.error.code, report.error.line, report.error.column, report.error.offset]
# Not ru_maxrss, which a process inherits from the one that starts it.
peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
answers = [one.id for one in report.answers]
print(json.dumps({"answers": answers, "error": error, "peak": peak, "count": count, "length": len(block) * count}))
"""


def run(size: int, kind: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", CODE, str(size), kind], capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def check(size: int) -> None:
    found = run(size, "whole")
    assert found["answers"] == [0, 1, 2, *range(4, 55)]
    assert found["error"] is None
    assert float(str(found["peak"])) < 500
    found = run(size, "broken")
    length = int(str(found["length"]))
    head = len('<?xml version="1.0"?>\n<catalogue>\n')
    last = len("<item><name>the last one</name></item>")
    lines = 3000 * int(str(found["count"]))
    assert found["error"] == ["mismatched-tag", 3 + lines, 1 + last, head + length + last]
    assert {0, 1, 2, *range(4, 54)} == set(found["answers"])  # type: ignore[call-overload]
    assert float(str(found["peak"])) < 500


def test_50_megabytes() -> None:
    check(50 << 20)


@pytest.mark.slow
def test_2_gigabytes() -> None:
    check(2 << 30)
