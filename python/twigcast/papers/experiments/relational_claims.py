"""The claims of the relational paper (§5), each checked against the measurements of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twigcast.papers.experiments.claims import Claim, all_of, grows_faster, less, ratio_between
from twigcast.papers.experiments.measure import Spread, number

# Seconds of unroll, share and share-bucket: by notifications for a million subscriptions, and by subscriptions.
TABLE_5_1 = {1_000: (56, 107, 26.3), 10_000: (61, 154, 44.6), 100_000: (70, 504, 195), 1_000_000: (161, 2369, 1210)}
TABLE_5_2 = {100_000: (52, 101, 75), 200_000: (55, 221, 119), 1_000_000: (70, 504, 195)}
# Subscriptions -> distinct linear paths, and seconds for PathMatch.
TABLE_5_4: Mapping[int, tuple[int, int]] = {
    130_000: (6_565, 7),
    700_000: (21_637, 20),
    1_400_000: (32_159, 29),
    2_100_000: (38_026, 35),
    2_700_000: (42_271, 37),
}
MILLION = 1_000_000
Times = Mapping[tuple[tuple[int, int], str], Spread]
"""By the paper's subscriptions and notifications, and the plan."""

COLUMNS = (
    "a column store scans the predicates of one level where DB2 looks them up in an index, so that the cost of a plan"
    " depends on the rows that each level leaves, more than on how it finds them."
)


def selectivities(times: Times, path_match: Mapping[tuple[int, int], Spread]) -> list[Claim]:
    """Table 5.1."""
    found = sorted(TABLE_5_1)
    at = {plan: {n: times[(MILLION, n), plan] for n in found} for plan in ("unroll", "share", "share-bucket")}
    few, many = found[0], found[-1]
    growth = {plan: at[plan][many].over(at[plan][few]) for plan in at}
    bucket = [
        less("", (f"share-bucket at {number(n)}", at["share-bucket"][n]), ("share", at["share"][n])) for n in found
    ]
    sensitive = [
        grows_faster("", (plan, growth[plan]), ("unroll", growth["unroll"])) for plan in ("share", "share-bucket")
    ]
    return [
        ratio_between(
            "unroll increases slightly up to 100,000 notifications (§5.1)",
            "unroll at 100,000 / 1,000",
            at["unroll"][100_000].over(at["unroll"][1_000]),
            0.7,
            1.5,
            COLUMNS,
        ),
        ratio_between(
            "and only doubles from there to a million (§5.1)",
            "unroll at 1,000,000 / 100,000",
            at["unroll"][1_000_000].over(at["unroll"][100_000]),
            0.0,
            3.0,
            COLUMNS,
        ),
        all_of("The recursive plans are much more sensitive to selectivity than unroll (§5.1)", sensitive, COLUMNS),
        all_of(
            "Buckets can be very effective: share-bucket is faster than share in all rows (Table 5.1)", bucket, COLUMNS
        ),
        less(
            "With buckets the recursive plan can outperform unroll where few match (§5.1)",
            ("share-bucket at 1,000", at["share-bucket"][1_000]),
            ("unroll", at["unroll"][1_000]),
            COLUMNS,
        ),
        all_of(
            "The cost of PathMatch is ignorable (§5.1)",
            [
                less("", (f"PathMatch at {number(n)}", path_match[MILLION, n]), ("unroll", at["unroll"][n]), factor=0.1)
                for n in found
            ],
            "a match takes tenths of a second here and a minute there, while new paths cost a change of the database.",
        ),
    ]


def scalability(times: Times) -> list[Claim]:
    """Table 5.2."""
    first, last = min(TABLE_5_2), max(TABLE_5_2)
    growth = {
        plan: times[(last, last // 10), plan].over(times[(first, first // 10), plan])
        for plan in ("unroll", "share", "share-bucket")
    }
    return [
        ratio_between(
            "With ten times the subscriptions unroll takes only slightly longer (§5.1)",
            "unroll",
            growth["unroll"],
            0.0,
            2.0,
            "matches grow with the subscriptions, and on a column store they are most of the cost.",
        ),
        all_of(
            "and the recursive plans grow less than linearly (§5.1)",
            [ratio_between("", plan, growth[plan], 0.0, last / first) for plan in ("share", "share-bucket")],
            COLUMNS,
        ),
    ]


def recursive(
    times: Mapping[tuple[int, str], Spread], path_match: Mapping[int, Spread], sizes: Sequence[int]
) -> list[Claim]:
    """Figure 5.2 and Table 5.4."""
    first, last = sizes[0], sizes[-1]
    growth = {plan: times[last, plan].over(times[first, plan]) for plan in ("unroll", "share")}
    return [
        all_of(
            "unroll is faster than share (Figure 5.2)",
            [less("", (f"unroll at {number(n)}", times[n, "unroll"]), ("share", times[n, "share"])) for n in sizes],
            COLUMNS,
        ),
        grows_faster(
            "unroll degrades more gracefully than share (§5.2)",
            ("share", growth["share"]),
            ("unroll", growth["unroll"]),
            "the paper's buffer pool could not hold the predicates of share beyond ten million; ours are in memory.",
        ),
        ratio_between(
            "The time for PathMatch grows less than the subscriptions (Table 5.4)",
            "PathMatch",
            path_match[last].over(path_match[first]),
            0.0,
            last / first,
            "our generator makes fewer distinct linear paths than the paper's; see the table.",
        ),
    ]
