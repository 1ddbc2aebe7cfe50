"""What the eXtract paper published (section 5, A1 and A3), and its claims checked against the measurements of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twigcast.papers.experiments.claims import Claim, all_of, counted, less, ratio_between
from twigcast.papers.experiments.measure import Spread, number

Times = Mapping[tuple[int, int, str], Spread]
"""Milliseconds by queries, chunks (0: none) and what was timed."""

# Chunks -> kB of each chunk, and of the potpourri.
A1: Mapping[int, tuple[int, ...]] = {
    3: (170, 206, 1233, 4969),
    4: (170, 206, 1233, 1145, 4969),
    5: (170, 206, 1233, 1145, 1537, 0),
}
_ASSEMBLY, _BEANS = "/ejb-jar/assembly-descriptor", "/ejb-jar/enterprise-beans"
_SPLIT = {
    f"{_ASSEMBLY}/container-transaction": (19, 1_351),
    f"{_ASSEMBLY}/method-permission": (18, 2_583),
    f"{_ASSEMBLY}/security-role": (17, 41),
}
# Chunks -> prefix -> share of the queries in percent, and elements.
A3: Mapping[int, Mapping[str, tuple[int, int]]] = {
    2: {_ASSEMBLY: (54, 3_972), _BEANS: (46, 681)},
    3: {f"{_ASSEMBLY}/container-transaction": (19, 1_351), _ASSEMBLY: (35, 3_972), _BEANS: (46, 681)},
    4: {**_SPLIT, _BEANS: (46, 681)},
    5: {**_SPLIT, f"{_BEANS}/session": (16, 162), _BEANS: (30, 681)},
    6: {
        **_SPLIT,
        f"{_BEANS}/session": (16, 162),
        f"{_BEANS}/message-driven": (15, 44),
        f"{_BEANS}/entity": (14, 497),
    },
}

# Scenario -> queries and chunks -> what section 5 and Figures 11 and 12 say.
PUBLISHED: Mapping[str, Mapping[tuple[int, int], str]] = {
    "1": {
        (100, 3): "25 % parallel; sequential slower",
        (100, 5): "24 % parallel (23,384 of 30,624 ms); sequential slower",
        (500, 3): "sequential faster already",
        (500, 4): "sequential faster already",
        (500, 5): "sequential faster already",
        (2_000, 3): "41 % parallel (168,472 of 289,365 ms)",
        (2_000, 5): "71 % parallel (86,955 of 298,980 ms)",
    },
    "2": {
        (100, 2): "34 % sequential (42,871 of 64,473 ms)",
        (100, 3): "less than with 2 chunks",
        (500, 2): "30 to 40 % sequential",
        (2_000, 2): "30 to 40 % sequential",
        (2_000, 3): "first answers after 2 % of the time",
    },
}

WHY = {
    "lxml": (
        "libxml2 takes many times as long for `//` as for the path that the schema makes of it, so that chunked"
        " expressions gain before anything is split; and our potpourri is a part of the document only."
    ),
    "twigcast": (
        "our engine looks at a document once for all queries, and chunking is one more pass over it: smaller documents"
        " with fewer queries each save little."
    ),
}


def university_sizes(found: Mapping[int, Sequence[float]]) -> list[Claim]:
    """A1: the sizes of chunks by their number, sorted, in kB. A share is that of all five chunks together."""
    ours, theirs = sum(found[5]), sum(A1[5])
    claims = []
    for degree, sizes in found.items():
        pairs = zip(sizes, sorted(A1[degree][:-1]), strict=True)
        shares = [(size / ours) / (published / theirs) for size, published in pairs]
        text = ", ".join(f"{one:.2f}" for one in shares)
        claims.append(
            counted(
                f"With {degree} chunks their sizes have the proportions that A1 gives",
                f"ours / the paper's shares: {text}; counted as held: 0.75 to 1.25",
                all(0.75 <= one <= 1.25 for one in shares),
                "which prefixes become chunks depends on the queries below them, and A1 does not tell these.",
            )
        )
    return claims


def descriptor_prefixes(same: bool) -> list[Claim]:
    """A3."""
    text = "The algorithm picks the prefixes of A3 for 2 to 6 chunks"
    return [counted(text, "the same prefixes" if same else "other prefixes: see the table", same)]


def university(times: Times, engine: str, counts: Sequence[int]) -> list[Claim]:
    """Scenario 1 (section 5.1)."""
    why = WHY[engine]
    few, many = counts[0], counts[-1]

    def of(count: int, degree: int, kind: str) -> tuple[str, Spread]:
        return f"{kind} with {number(count)} queries, {degree} chunks", times[count, degree, kind]

    def whole(count: int) -> tuple[str, Spread]:
        return "unchunked", times[count, 0, "whole"]

    def parallel(count: int, degree: int) -> Spread:
        return times[count, degree, "parallel"].over(times[count, 0, "whole"])

    slower = [less("", whole(few), of(few, degree, "sequential")) for degree in (3, 4, 5)]
    faster = [less("", of(n, degree, "sequential"), whole(n)) for n in counts[1:] for degree in (3, 4, 5)]
    return [
        all_of(f"With {few} queries sequential chunking takes longer than no chunking (§5.1)", slower, why),
        ratio_between(
            f"With {few} queries and 5 chunks in parallel 24 % are gained: 0.76 of the time (§5.1)",
            "parallel / unchunked",
            parallel(few, 5),
            0.66,
            0.86,
            why,
        ),
        all_of("With 500 queries and more sequential chunking is faster already (§5.1)", faster, why),
        less(
            "The more queries, the higher the speed-up (§5.1)",
            (f"(parallel / unchunked with {number(many)} queries)", parallel(many, 5)),
            (f"(with {number(few)})", parallel(few, 5)),
            why,
        ),
        less(
            "With 2,000 queries 5 chunks gain more (71 %) than 3 with a potpourri (41 %) (§5.1)",
            of(many, 5, "parallel"),
            of(many, 3, "parallel"),
            why,
        ),
    ]


def descriptor(times: Times, engine: str, counts: Sequence[int]) -> list[Claim]:
    """Scenario 2 (section 5.2)."""
    few, many = counts[0], counts[-1]
    why = (
        "making two chunks takes a larger share of the time here (see *chunking*): the paper's engine needed a minute"
        " for 100 queries on the whole document."
    )
    if engine == "twigcast":
        why += f" And {WHY[engine]}"
    best = [
        less("", ("2 chunks", times[few, 2, "sequential"]), (f"{degree}", times[few, degree, "sequential"]))
        for degree in (3, 4, 5, 6)
    ]
    reduced = [
        ratio_between("", f"with {number(n)} queries", times[n, 2, "sequential"].over(times[n, 0, "whole"]), 0.55, 0.75)
        for n in counts
    ]
    return [
        less(
            "With 100 queries two chunks one after the other are faster than the document (§5.2)",
            ("sequential", times[few, 2, "sequential"]),
            ("unchunked", times[few, 0, "whole"]),
            why,
        ),
        all_of("and two chunks are the optimum: more increase the overall time (§5.2)", best, why),
        all_of("Two chunks reduce the time to 60 to 70 % (§5.2)", reduced, why),
        ratio_between(
            "With 2,000 queries and three chunks the first answers come after 2 % of the time (§5.2)",
            "first answers / unchunked",
            times[many, 3, "first"].over(times[many, 0, "whole"]),
            0.0,
            0.05,
            why,
        ),
    ]
