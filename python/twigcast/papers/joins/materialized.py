"""MMQJP with materialised views (joins §5): R_bin joined with R_doc is kept, cut into slices by string value, so that
the templates share that work and later messages find it done.

Algorithm 4 is ``matched`` over R_L and R_R, Algorithm 5 is ``keep``. The cache holds the slices of the values asked
for last, up to a bound on their rows; what fell out is computed again when it is asked for.
"""

from __future__ import annotations

from collections import OrderedDict

import pyarrow as pa

from twigcast.papers.joins.mmqjp import Mmqjp
from twigcast.papers.joins.strategy import Arrival
from twigcast.papers.joins.witnesses import Witnesses

MAX_ROWS = 1_000_000
_VIEWS = """
CREATE TABLE view_cache (
    docid BIGINT, var1 INTEGER, var2 INTEGER, node1 INTEGER, node2 INTEGER, str VARCHAR, num DOUBLE
)
"""


class MaterializedMmqjp(Mmqjp):
    """Strategy ``mmqjp-materialized``; ``max_rows`` bounds the view cache."""

    materialized = True

    def __init__(self, max_rows: int = MAX_ROWS) -> None:
        super().__init__()
        self.connection.execute(_VIEWS)
        self.max_rows = max_rows
        self.slices: OrderedDict[str, int] = OrderedDict()
        """The values that have their slice in the cache, those asked for last at the end, and its rows."""
        self._common: list[str] = []
        self.hits = self.misses = 0

    def load_witnesses(self, found: Witnesses) -> None:
        """Algorithm 4, lines 2 to 8: R_L and R_R of the values that the message shares with those before."""
        super().load_witnesses(found)
        run = self.connection.execute
        common = self.rows("SELECT DISTINCT str FROM r_docw WHERE str IN (SELECT str FROM r_doc)")
        self._common = [value for (value,) in common]
        missing = [value for value in self._common if value not in self.slices]
        self.hits += len(self._common) - len(missing)
        self.misses += len(missing)
        self._values("wanted", missing)
        run(
            "INSERT INTO view_cache SELECT b.docid, b.var1, b.var2, b.node1, b.node2, d.str, d.num"
            " FROM wanted w, r_doc d, r_bin b WHERE d.str = w.str AND b.docid = d.docid AND b.node2 = d.node"
        )
        self._values("common", self._common)
        run("CREATE OR REPLACE TEMP TABLE r_l AS SELECT * FROM view_cache WHERE str IN (FROM common)")
        run(
            "CREATE OR REPLACE TEMP TABLE r_r AS SELECT b.var1, b.var2, b.node1, b.node2, d.str, d.num"
            " FROM r_docw d, r_binw b WHERE d.str IN (FROM common) AND b.node2 = d.node"
        )

    def keep(self, arrival: Arrival) -> None:
        """Algorithm 5, after the state: the slices grow by those of the message."""
        super().keep(arrival)
        run = self.connection.execute
        run(f"INSERT INTO view_cache SELECT {arrival.number}, var1, var2, node1, node2, str, num FROM r_r")
        for value, count in self.rows("SELECT str, count(*) FROM view_cache WHERE str IN (FROM common) GROUP BY str"):
            self.slices[value] = count
            self.slices.move_to_end(value)
        out: list[str] = []
        total = sum(self.slices.values())
        while total > self.max_rows and self.slices:
            value, count = self.slices.popitem(last=False)
            out.append(value)
            total -= count
        self._forget(out)

    def expire(self, before: int) -> None:
        # A slice that loses rows may lose the value itself, and would then miss the messages that bring it back.
        old = "SELECT docid FROM r_docts WHERE ts < ?"
        stale = self.connection.execute(f"SELECT DISTINCT str FROM view_cache WHERE docid IN ({old})", [before])
        values = [value for (value,) in stale.fetchall()]
        for value in values:
            self.slices.pop(value, None)
        self._forget(values)
        super().expire(before)

    def _forget(self, values: list[str]) -> None:
        if values:
            self._values("wanted", values)
            self.connection.execute("DELETE FROM view_cache WHERE str IN (FROM wanted)")

    def _values(self, name: str, values: list[str]) -> None:
        self.connection.register(name, pa.table([pa.array(values, pa.string())], names=["str"]))
