"""A large document, matched in parts while it is read: against bare parsing, on one core and on two, and its memory."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Line
from twigcast import _kernel
from twigcast.chunk.prepare import prepare
from twigcast.chunk.run import Options, match
from twigcast.chunk.scheme import Scheme
from twigcast.chunk.source import blocks
from twigcast.engine import Subscription

SIZE = 200 << 20
WORDS = ["alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew", "ash"]


def item(rng: random.Random, i: int) -> str:
    def words(n: int) -> str:
        return " ".join(rng.choices(WORDS, k=n))

    paragraphs = "".join(f"      <p>{words(80)}</p>\n" for _ in range(3))
    return (
        f'  <item id="i{i}" featured="{"yes" if i % 9 == 0 else "no"}">\n    <name>{words(2)}</name>\n'
        f'    <price currency="EUR">{rng.randint(1, 500)}.{rng.randint(10, 99)}</price>\n'
        f"    <description>\n{paragraphs}      <p>{words(20)} <keyword>{words(1)}</keyword> {words(30)}</p>\n"
        f"    </description>\n    <shipping><method>{rng.choice(('air', 'sea', 'road'))}</method>"
        f"<days>{rng.randint(1, 30)}</days></shipping>\n  </item>\n"
    )


def catalogue(size: int) -> Iterator[bytes]:
    """A document of about ``size`` bytes. Its items recur, as what costs is their number."""
    rng = random.Random(8)
    some = "".join(item(rng, i) for i in range(2_000)).encode()
    yield b'<?xml version="1.0"?>\n<catalogue year="2026">\n'
    for _ in range(size // len(some)):
        yield some
    yield b'  <item id="last"><name>the last one</name></item>\n</catalogue>\n'


def subscriptions(count: int) -> list[Subscription]:
    """What readers of a catalogue ask for: nearly all of it is in there, some is not."""
    rng = random.Random(9)
    queries = ["/catalogue/auction/bid", "//bargain", "/catalogue/item/review/stars"]
    makers = (
        lambda: f"/catalogue/item[price > {rng.randint(1, 450)}]/name",
        lambda: f'/catalogue/item[name = "{" ".join(rng.choices(WORDS[:9], k=2))}"]',
        lambda: f"/catalogue/item/shipping[days < {rng.randint(3, 30)} and method = 'air']",
        lambda: f"//item[@featured = 'yes'][.//keyword = '{rng.choice(WORDS)}']",
        lambda: f"/catalogue/item/{rng.choice(('name', 'price', 'description/p', 'description//keyword'))}",
    )
    queries += [makers[i % len(makers)]() for i in range(count - len(queries))]
    return [Subscription(i, query) for i, query in enumerate(queries)]


def bare(path: str) -> None:
    check = _kernel.Check()
    for block in blocks(path):
        check.feed(block)
    assert check.finish() is None


def chunked(path: str, scheme: Scheme, jobs: int) -> int:
    report = match(lambda: blocks(path), lambda _: scheme, Options(jobs=jobs))
    assert report.error is None
    assert not report.undecided
    return len(report.answers)


def lines(quick: bool) -> Iterator[Line]:
    size, repeat = (SIZE // 4, 3) if quick else (SIZE, 5)
    subscribed = subscriptions(1_000)
    hard = [*subscribed, Subscription("last", "/catalogue/item[name = 'the last one']")]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "catalogue.xml")
        with Path(path).open("wb") as file:
            file.writelines(catalogue(size))
        schemes = {"": prepare(subscribed, chunks=4), "hard": prepare(hard, chunks=4)}
        best: dict[str, float] = {}
        for _ in range(repeat):
            for name, run in (
                ("bare", lambda: bare(path)),
                ("one", lambda: chunked(path, schemes[""], 1)),
                ("hard", lambda: chunked(path, schemes["hard"], 1)),
            ):
                start = time.process_time()
                run()
                best[name] = min(best.get(name, 1e9), time.process_time() - start)
            for jobs in (1, 2):
                start = time.perf_counter()
                chunked(path, schemes[""], jobs)
                best[f"wall {jobs}"] = min(best.get(f"wall {jobs}", 1e9), time.perf_counter() - start)
        megabytes = Path(path).stat().st_size / 1e6
        note = f"{megabytes / best['one']:,.0f} MB/s of {megabytes:,.0f} MB, 1,000 subscriptions"
        yield Line("large", "speed of bare parsing, one core", best["bare"] / best["one"], "x", 0.7, "higher", note)
        note = f"{megabytes / best['wall 2']:,.0f} MB/s"
        yield Line("large", "two cores to one", best["wall 1"] / best["wall 2"], "x", 1.5, "higher", note)
        note = "a value that only the last item has is looked for in all"
        yield Line("large", "the same, with a rare value", best["bare"] / best["hard"], "x", None, "higher", note)
        yield Line(
            "large", "peak memory", peak(path, folder, subscribed), "MB", 500, note="twigcast chunk match, 2 jobs"
        )


def peak(path: str, folder: str, subscribed: list[Subscription]) -> float:
    """Of a process of its own, in MB."""
    file = Path(folder) / "subscriptions.txt"
    file.write_text("\n".join(one.query for one in subscribed), encoding="utf-8")
    code = (
        "import resource, sys\nfrom twigcast.cli import main\ntry:\n    main()\nfinally:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, "chunk", "match", "-s", str(file), "--jobs", "2", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(done.stderr.split()[-1]) / 1024
