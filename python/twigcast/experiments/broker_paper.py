"""What the broker paper published (§6), and how ours differs from it. Its figures are drawn, not told: of those only
what the text says is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PREFACE = """
The experiments of §6 of Diao and Franklin, *Query Processing for High-Volume XML Message Brokering* (VLDB 2003), on our
own implementation of their plans. The published times are those of a Java program on a Pentium III of 850 MHz: what can
be compared is not milliseconds but which way is better, and by how much. MQPT is the time per document, parsing not
counted. Queries have the paper's settings, D1 = 2 (Bib) or 3 (Book), PP = 1, RP = 2, D2 = 2, DSProb = 0.2 and
MaxValue = 10, unless a table says otherwise. A bib has 20 books with up to five authors or editors each (about 290
elements; 149 in the paper), a book has sections that nest up to four deep (about 100 elements; 83). The costs of
operators come from runs with the profiler on, which looks at the clock for every operator of every plan and so takes
several times what it measures: the shares tell, not the sums.
"""

# the operators of a column, as the kernel's profiler calls them
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

FIGURE_7 = {
    "none": "-FW least, -FWR most",
    "query": "-FWR least",
    "query+schema": "-FWR least, by a wide margin",
}
FIGURE_10 = {
    "none": "as for Bib",
    "query": "-FW less than -FWR",
    "query+schema": "-FWR least, by less than for Bib",
}


FIGURE_12 = {100_000: "472 ms with plan sharing"}


@dataclass(frozen=True)
class Varied:
    """An experiment that varies one setting of the generator."""

    figure: str
    short: str
    setting: str
    published: Mapping[int, str]


PREDICATES = Varied("8", "PP", "predicate_paths", {3: "116 matches in all; -FW close to -FWR"})
RETURNS = Varied("9", "RP", "return_paths", {4: "-F and -FW grow linearly, -FWR hardly"})

TREE_SEARCH = (
    "Published, -FWR goes from the worst to the best by a wide margin. Our tree search goes over a flat table and not"
    " over objects, which leaves -F and -FW less to lose."
)
RECURSION = "Published, the optimisations help less than for Bib, as sections nest and many joins have to hash."
STREAMS = (
    "Published, -F and -FW grow linearly, for they search the tree once more for every path, and -FWR hardly: it"
    " reads one more stream that is there anyway."
)
NOTHING_SHARED = "Published, all three grow linearly, -F most: they share no post-processing."
