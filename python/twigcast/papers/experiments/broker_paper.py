"""What the broker paper published (§6). Its figures are pictures without numbers: only what the text says is known."""

from __future__ import annotations

from collections.abc import Mapping

PREFACE = """
The experiments of §6 of Diao and Franklin, *Query Processing for High-Volume XML Message Brokering* (VLDB 2003), on our
own implementation of their plans. The published times are those of a Java program on a Pentium III of 850 MHz: what can
be compared is not milliseconds but which way is better, and by how much. MQPT is the time per document, parsing not
counted, in CPU time of one thread. Queries have the paper's settings, D1 = 2 (Bib) or 3 (Book), PP = 1, RP = 2, D2 = 2,
DSProb = 0.2 and MaxValue = 10, unless a table says otherwise. Queries are distinct, as in the paper.

Every alternative of a row runs the plans of all queries, also of those whose plans become equal by rewriting with the
DTD. Figure 12 and Table 5 are the exception, as in the paper (§6.5): there, equal plans run once, with plan sharing and
without. A plan that the DTD proves empty does nothing, and is counted apart. A setting that occurs in several figures
(opt(q+dtd) in Figure 7, PP = 1 in Figure 8, RP = 2 in Figure 9) is measured once and has one number.

The costs of operators come from runs with the profiler on, which looks at the clock for every operator of every plan
and so takes several times what it measures: compare the shares of the columns, not their sums.
"""

DOCUMENTS = "180 (after 20 to warm up)"
ELEMENTS = {"bib": "149", "book": "83"}

# The operators of a column, as the kernel's profiler calls them.
TABLE_2: Mapping[str, tuple[str, ...]] = {
    "PME": ("paths",),
    "Selection": ("selection",),
    "DupElim": ("dupelim",),
    "Semijoin": ("semijoin",),
    "OuterJoin": ("outer-join-select",),
}
PUBLISHED_2: Mapping[str, tuple[int, ...]] = {
    "none": (28, 61, 451, 140, 235),
    "query": (27, 51, 15, 67, 112),
    "query+schema": (9, 42, 0, 18, 22),
}
TABLE_3 = ("", "semijoin hash", "semijoin merge", "outer join hash", "outer join merge", "DupElim")
PUBLISHED_3: Mapping[str, tuple[int, ...]] = {
    "none": (5000, 0, 5000, 0, 15000),
    "query": (1966, 3034, 1966, 3034, 429),
    "query+schema": (0, 5000, 0, 5000, 0),
}
TABLE_4: Mapping[str, tuple[str, ...]] = {
    "Selection": ("selection",),
    "DupElim": ("dupelim",),
    "Semijoin": ("semijoin",),
    "OuterJoin": ("outer-join-select",),
    "Executor": ("executor",),
    "Total": ("paths", "selection", "dupelim", "semijoin", "outer-join-select", "executor"),
}
PUBLISHED_4: Mapping[int, tuple[int, ...]] = {
    10_000: (93, 30, 137, 163, 73, 516),
    20_000: (191, 62, 320, 364, 152, 1111),
    30_000: (267, 111, 484, 592, 182, 1715),
    40_000: (380, 146, 659, 810, 314, 2344),
    50_000: (498, 183, 847, 1025, 384, 2985),
}
TABLE_5: Mapping[str, tuple[str, ...]] = {
    "Selection": ("selection", "dupelim"),
    "GroupBy": ("group-by",),
    "Join": ("semijoin",),
    "OuterJoin": ("outer-join-select",),
    "Executor": ("executor",),
    "Total": ("paths", "selection", "dupelim", "group-by", "semijoin", "outer-join-select", "executor"),
}
PUBLISHED_5: Mapping[int, tuple[int, ...]] = {
    10_000: (8_232, 18, 4, 18, 29, 7, 105),
    20_000: (16_482, 18, 3, 19, 58, 16, 156),
    30_000: (24_576, 24, 5, 19, 81, 22, 212),
    40_000: (32_736, 18, 6, 21, 117, 28, 264),
    50_000: (40_392, 21, 5, 17, 138, 37, 317),
}

# Known differences that can explain why a claim fails.
TREE_SEARCH = (
    "our tree search goes over a flat table of nodes and not over objects, which leaves -F and -FW less to lose."
)
KERNEL = "compiled operators over arrays have other relative costs than Java objects on a 2003 machine."
GENERATOR = "where the `//` stand depends on the query generator, and the paper's was not published."
