"""A large document, matched in parts while it is read: against bare parsing, on one core and on two, and its memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.timing import Line, seconds
from twigcast import Limits, _kernel
from twigcast.chunk.pieces import Compiled
from twigcast.chunk.prepare import prepare
from twigcast.chunk.run import Options, match
from twigcast.chunk.scheme import Scheme
from twigcast.chunk.source import blocks
from twigcast.engine import Engine, Subscription

SIZE = int(os.environ.get("TWIGCAST_LARGE_MB", "200")) << 20
WORDS = ["alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew", "ash"]


def item(rng: random.Random) -> str:
    """An item, without what tells it from others."""
    paragraphs = "".join(f"      <p>{words(rng, 80)}</p>\n" for _ in range(3))
    return (
        '  <item id="i%(id)d" featured="%(featured)s">\n    <name>%(name)s</name>\n'
        '    <price currency="EUR">%(price)s</price>\n    <description>\n'
        f"{paragraphs}      <p>{words(rng, 20)} <keyword>{words(rng, 1)}</keyword> {words(rng, 30)}</p>\n"
        f"    </description>\n    <shipping><method>{rng.choice(('air', 'sea', 'road'))}</method>"
        f"<days>{rng.randint(1, 30)}</days></shipping>\n  </item>\n"
    )


def words(rng: random.Random, n: int) -> str:
    return " ".join(rng.choices(WORDS, k=n))


def price(rng: random.Random) -> str:
    return f"{rng.randint(1, 500)}.{rng.randint(10, 99)}"


def catalogue(size: int) -> Iterator[bytes]:
    """A document of about ``size`` bytes. Descriptions recur; ids, names and prices are each item's own."""
    rng = random.Random(8)
    some = [item(rng) for _ in range(2_000)]
    yield b'<?xml version="1.0"?>\n<catalogue year="2026">\n'
    count = written = 0
    while written < size:
        items = []
        for one in some:
            own = {"id": count, "featured": "no" if count % 9 else "yes", "name": words(rng, 3), "price": price(rng)}
            items.append(one % own)
            count += 1
        block = "".join(items).encode()
        written += len(block)
        yield block
    yield b'  <item id="last"><name>the last one</name></item>\n</catalogue>\n'


FIXED = (
    "/catalogue/auction/bid",
    "//bargain",
    "/catalogue/item/review/stars",
    "/catalogue/item/name",
    "//keyword",
    "//shipping/method",
    "/catalogue/item[description/p/keyword]/price",
    "//item[not(shipping)]",
)


def subscriptions(count: int, items: int) -> list[Subscription]:
    """Structure and values in turn; of the values, some are in every other item, some in one of thousands, and some in
    none (of the ids, half; of the last kind but one, most)."""
    rng = random.Random(9)
    makers = (
        lambda: f"/catalogue/item[price > {rng.randint(1, 450)}]/name",
        lambda: f"/catalogue/item[price = {price(rng)}]",
        lambda: f'/catalogue/item[name = "{words(rng, 3)}"]/description',
        lambda: f'//item[@id = "i{rng.randint(0, 2 * items)}"]/price',
        lambda: f"/catalogue/item/shipping[days < {rng.randint(3, 30)} and method = 'air']",
        lambda: f'//item[@featured = "yes"][.//keyword = "{rng.choice(WORDS)}"]',
        lambda: (
            f"/catalogue/item[price > {rng.randint(490, 500)} and shipping/days = {rng.randint(1, 31)}"
            f' and description//keyword = "{rng.choice(WORDS)}"]'
        ),
        lambda: f'/catalogue/item[name = "{words(rng, 3)}" and price < {rng.randint(2, 60)}]',
    )
    return _in_turn(FIXED, makers, count)


def found_early(count: int) -> list[Subscription]:
    """Nearly all of it is in the first few thousand items."""
    rng = random.Random(9)
    makers = (
        lambda: f"/catalogue/item[price > {rng.randint(1, 450)}]/name",
        lambda: f"/catalogue/item/shipping[days < {rng.randint(3, 30)} and method = 'air']",
        lambda: f"//item[@featured = 'yes'][.//keyword = '{rng.choice(WORDS)}']",
        lambda: f"/catalogue/item/{rng.choice(('name', 'price', 'description/p', 'description//keyword'))}",
    )
    return _in_turn(FIXED[:3], makers, count)


def _in_turn(fixed: Sequence[str], makers: Sequence[Callable[[], str]], count: int) -> list[Subscription]:
    queries = [*fixed, *(makers[i % len(makers)]() for i in range(count - len(fixed)))]
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
    size, repeat = (SIZE // 4, 3) if quick else (SIZE, 12)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "catalogue.xml")
        with Path(path).open("wb") as file:
            file.writelines(catalogue(size))
        subscribed = subscriptions(1_000, items=size // 2_100)
        mixed, early = prepare(subscribed, chunks=4), prepare(found_early(1_000), chunks=4)
        best: dict[str, float] = {}
        for _ in range(repeat):
            for name, run in (
                ("bare", lambda: bare(path)),
                ("mixed", lambda: chunked(path, mixed, 1)),
                ("early", lambda: chunked(path, early, 1)),
            ):
                start = time.process_time()
                run()
                best[name] = min(best.get(name, 1e9), time.process_time() - start)
            for jobs in (1, 2):
                start = time.perf_counter()
                chunked(path, mixed, jobs)
                best[f"wall {jobs}"] = min(best.get(f"wall {jobs}", 1e9), time.perf_counter() - start)
        megabytes = Path(path).stat().st_size / 1e6

        def note(name: str) -> str:
            return f"{megabytes / best[name]:,.0f} MB/s of {megabytes:,.0f} MB, 1,000 subscriptions"

        ratio = best["bare"] / best["mixed"]
        yield Line("large", "speed of bare parsing, one core", ratio, "x", 0.7, "higher", note("mixed"))
        ratio = best["wall 1"] / best["wall 2"]
        yield Line("large", "two cores to one", ratio, "x", 1.5, "higher", note("wall 2"))
        ratio = best["bare"] / best["early"]
        yield Line("large", "one core, all but a few found early", ratio, "x", None, "higher", note("early"))
        yield Line(
            "large", "peak memory", peak(path, folder, subscribed), "MB", 500, note="twigcast chunk match, 2 jobs"
        )


def preparing(quick: bool) -> Iterator[Line]:
    """All that happens before the first byte of a document, against ``add_many`` of the same subscriptions."""
    count = 20_000 if quick else 100_000
    subscribed = subscriptions(count, items=count)
    best: dict[str, float] = {}
    for _ in range(5):
        for name, run in (
            ("add_many", lambda: Engine().add_many(subscribed)),
            ("prepare", lambda: Compiled(prepare(subscribed, chunks=4), Limits())),
        ):
            best[name] = min(best.get(name, 1e9), seconds(run))
    each = {name: took / count * 1e6 for name, took in best.items()}
    note = f"{each['prepare']:.1f} µs a subscription, add_many {each['add_many']:.1f} µs"
    ratio = best["prepare"] / best["add_many"]
    yield Line("large", f"preparing {count:,} subscriptions : add_many", ratio, "times", 2, note=note)


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
