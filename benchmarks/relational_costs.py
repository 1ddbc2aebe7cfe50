"""Measures the constants of the relational cost model (C_i, C_t, C_r of relational §4.1) on DuckDB:

    python -m benchmarks.relational_costs

``twigcast.papers.relational_cost`` has what this printed. Stock subscriptions of several sizes and selectivities are
matched with chains and with unrolled rows; how many look-ups and rows each takes is known, so that times tell what one
costs.
"""

from __future__ import annotations

import numpy as np

from twigcast.papers.experiments.relational import MESSAGES, Stocks, loaded, timed
from twigcast.papers.relational import PLANS

SYMBOLS = 100
SETS = [(3_000, 0.02), (3_000, 0.5), (10_000, 0.02), (10_000, 0.2), (10_000, 0.5)]


def main() -> None:
    chains: list[tuple[list[float], float]] = []
    rows: list[tuple[list[float], float]] = []
    for subscriptions, part in SETS:
        meetings = MESSAGES * subscriptions / SYMBOLS
        stocks = Stocks(subscriptions, int(meetings * part), SYMBOLS)
        batch = stocks.batch(2_000)
        each = subscriptions / SYMBOLS  # that a message's symbol leads to
        c = stocks.chance
        took = {}
        for plan in PLANS:
            engine = loaded(stocks, plan)
            took[plan] = timed(engine, batch, 3)[0] / 2_000 * 1e6
            engine.close()
        print(
            f"{subscriptions:>7,} {c:.2f}  "
            + "  ".join(f"{plan} {took[plan]:.1f}" for plan in PLANS)
            + "  µs a message"
        )
        # one chain for each subscription, so that the symbol alone finds all of them
        looked_up, retrieved = each * (1 + c + c**2 + c**3), each * (2 + c + c**2 + c**3)
        chains.append(([1.0, looked_up, retrieved], took["recursive"]))
        looked_up, retrieved = 1 + each * (c + c**2 + c**3), 1 + each * (1 + c + c**2 + c**3)
        chains.append(([1.0, looked_up, retrieved], took["share"]))
        rows.append(([1.0, each], took["unroll"]))
    (_, c_i, c_t), (_, c_r) = _solve(chains), _solve(rows)
    print(f"C_I, C_T, C_R = {c_i:.3f}, {c_t:.3f}, {c_r:.3f}  µs")


def _solve(equations: list[tuple[list[float], float]]) -> list[float]:
    found = np.linalg.lstsq(np.array([left for left, _ in equations]), np.array([right for _, right in equations]))[0]
    return [float(number) for number in found]


if __name__ == "__main__":
    main()
