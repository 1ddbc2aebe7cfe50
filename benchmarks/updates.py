"""Subscriptions that come while messages flow, and all at once. Both after parsing: steps are numbers already."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from benchmarks import corpora
from benchmarks.filtering import warm
from benchmarks.timing import Line, chunks, seconds
from twigcast import Engine
from twigcast.lang.structural import compile_path


def encoded(engine: Engine, paths: list[str]) -> tuple[bytes, bytes, bytes]:
    """What ``kernel.add`` takes."""
    codes, ends = array("I"), array("I")
    for path in paths:
        codes.extend(engine._codes.of(compile_path(path).steps))
        ends.append(len(codes))
    return codes.tobytes(), ends.tobytes(), array("I", range(1, len(paths) + 1)).tobytes()


def adding(quick: bool) -> Iterator[Line]:
    """New paths in hundreds, each hundred followed by a message: its matching brings the warm cache up to date."""
    paths = corpora.nitf_queries()[: 10_000 if quick else 100_000]
    fresh = corpora.nitf_queries()[len(paths) : len(paths) + 4_000]
    for name, documents in (
        ("500 messages", corpora.nitf_documents()),
        ("6,000 messages", corpora.generated_nitf(1_000 if quick else 6_000)),
    ):
        engine = corpora.engine(paths)
        parts = chunks(documents)
        warm(engine, parts)
        message = documents[0]
        base = min(seconds(lambda m=message: engine.kernel.match_one(m)) for _ in range(20))  # type: ignore[misc]
        tag_paths = engine.kernel.stats()[3]
        took, slowest = 0.0, 0.0
        for i in range(0, len(fresh), 100):
            batch = encoded(engine, fresh[i : i + 100])
            one = seconds(lambda b=batch, m=message: (engine.kernel.add(*b), engine.kernel.match_one(m)))  # type: ignore[misc]
            took += one
            slowest = max(slowest, one)
        note = f"{tag_paths:,} tag paths, {len(paths):,} paths; slowest hundred {slowest * 1e3:.1f} ms, message {base * 1e6:.0f} us"
        yield Line("adding", f"warm by {name}", len(fresh) / took, "paths/s", 20_000, "higher", note)


def bulk(quick: bool) -> Iterator[Line]:
    for count in (10_000, 100_000):
        paths = corpora.nitf_queries()[:count]
        best = float("inf")
        for _ in range(3 if quick else 8):
            engine = Engine()
            arrays = encoded(engine, paths)
            # the first message settles what was added
            took = seconds(lambda e=engine, a=arrays: (e.kernel.add(*a), e.kernel.match_one(b"<a/>")))  # type: ignore[misc]
            best = min(best, took)
        bar = 500_000 if count == 100_000 else None
        yield Line("adding", f"bulk, {count:,} paths", count / best, "paths/s", bar, "higher")
