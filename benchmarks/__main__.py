"""python -m benchmarks [--quick] [--only NAME] [--json FILE] [--plot FILE]"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import corpora, report
from benchmarks.timing import Line

# Imported when they run, so that `compare.py` may run one of them with the package of another revision.
BENCHMARKS = {
    "reader": "reading.lines",
    "structure": "filtering.structure",
    "subscribers": "filtering.subscribers",
    "recognition": "filtering.recognition",
    "streams": "filtering.streams",
    "peers": "filtering.peers",
    "adding": "updates.adding",
    "bulk": "updates.bulk",
    "predicates": "predicates.lines",
    "residuals": "residuals.lines",
    "stock": "stock.lines",
    "repeated": "repeated.lines",
    "registration": "registration.lines",
    "publishing": "publishing.lines",
    "kinds": "kinds.lines",
    "transforms": "broker.lines",
    "relational": "relational.lines",
    "events": "events.lines",
    "joins": "joins.lines",
    "join-stage": "join_stage.lines",
    "large": "large.lines",
    "preparing": "large.preparing",
    "pipeline": "pipeline.pipeline",
    "chunking": "chunking.lines",
    "starting": "starting.lines",
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a check that all runs, not a result")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", type=Path, default=RESULTS / "benchmarks.json")
    parser.add_argument("--plot", type=Path, default=RESULTS / "benchmarks.png")
    options = parser.parse_args()
    if not corpora.present():
        print("the benchmarks need ../shared/data/yfilter-nitf beside the project", file=sys.stderr)
        return 2
    print(f"X = expat without handlers on the same bytes. {report.machine()['cpu']}")
    lines: list[Line] = []
    for name in options.only or BENCHMARKS:
        module, _, function = BENCHMARKS[name].partition(".")
        for line in getattr(import_module(f"benchmarks.{module}"), function)(options.quick):
            lines.append(line)
            print(report.show(line), flush=True)
    report.write_json(options.json, lines)
    report.plot(options.plot, lines)
    missed = sum(line.passed is False for line in lines)
    print(f"{missed} of {sum(line.bar is not None for line in lines)} bars missed; {options.json}, {options.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
