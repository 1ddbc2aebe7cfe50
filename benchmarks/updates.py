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
    """What ``kernel.add`` takes besides the numbers."""
    codes, ends = array("I"), array("I")
    encode = engine._register.codes
    for path in paths:
        codes.extend([encode[step] for step in compile_path(path).steps])
        ends.append(len(codes))
    return codes.tobytes(), ends.tobytes(), array("I", range(1, len(paths) + 1)).tobytes()


def adding(quick: bool) -> Iterator[Line]:
    """New paths in hundreds, each hundred followed by a message: its matching brings the warm cache up to date."""
    paths = corpora.nitf_queries()[: 10_000 if quick else 100_000]
    fresh = corpora.nitf_queries()[len(paths) : len(paths) + 4_000]
    count = 1_000 if quick else 6_000
    yield _added("500 messages", paths, fresh, corpora.nitf_documents())
    yield _added(f"{count:,} generated messages", paths, fresh, corpora.generated_nitf(count))


def _added(name: str, paths: list[str], fresh: list[str], documents: list[bytes]) -> Line:
    engine = corpora.engine(paths)
    warm(engine, chunks(documents))
    tag_paths = engine.kernel.stats()[3]
    times = []
    for i in range(0, len(fresh), 100):
        arrays = encoded(engine, fresh[i : i + 100])
        times.append(seconds(lambda a=arrays: _enter(engine, a, documents[0])))  # type: ignore[misc]
    note = f"{tag_paths:,} tag paths, {len(paths):,} paths; slowest hundred {max(times) * 1e3:.1f} ms"
    return Line("adding", f"warm by {name}", len(fresh) / sum(times), "paths/s", 20_000, "higher", note)


def _enter(engine: Engine, arrays: tuple[bytes, bytes, bytes], message: bytes) -> None:
    engine.kernel.add(engine.kernel.reserve(len(arrays[2]) // 4), *arrays)
    engine.kernel.match_one(message)


def bulk(quick: bool) -> Iterator[Line]:
    for count in (10_000, 100_000):
        paths = corpora.nitf_queries()[:count]
        best = float("inf")
        for _ in range(3 if quick else 8):
            engine = Engine()
            arrays = encoded(engine, paths)
            # the first message settles what was added
            best = min(best, seconds(lambda e=engine, a=arrays: _enter(e, a, b"<a/>")))  # type: ignore[misc]
        bar = 500_000 if count == 100_000 else None
        yield Line("adding", f"bulk, {count:,} paths", count / best, "paths/s", bar, "higher")
