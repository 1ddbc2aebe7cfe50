-- The tables of the relational engine (relational §3), for every database. A sign of op tells what is compared: = and !=
-- strings, == and !== and the ranges numbers, exists nothing. What does not count is '' or 0, never null, so that a
-- predicate is found by plain equality of all columns.

CREATE TABLE relational_meta (
    version INTEGER NOT NULL,          -- of these tables
    plan TEXT NOT NULL,
    unroll INTEGER NOT NULL,           -- predicates in a row of predicate_unroll
    buckets INTEGER NOT NULL,
    changes BIGINT NOT NULL,           -- grows with every change; who has seen another number reads the tables again
    next_id BIGINT NOT NULL            -- the next number of a subscription or chain
);

CREATE TABLE query_subscription (
    number BIGINT NOT NULL,
    id TEXT NOT NULL,
    whole BOOLEAN NOT NULL,            -- the id is a number
    query TEXT NOT NULL,
    scope TEXT NOT NULL                -- namespaces and dialect, as JSON
);

-- Further conjunctions of a subscription with `or`; the first one has the subscription's own number.
CREATE TABLE query_alternative (sub_id BIGINT NOT NULL, number BIGINT NOT NULL);

CREATE TABLE query_linear_path (
    id INTEGER PRIMARY KEY,
    linear_path TEXT NOT NULL,
    prefix TEXT NOT NULL,              -- up to the first //
    middle TEXT,
    postfix TEXT,                      -- from the last // on, steps reversed
    valued BOOLEAN NOT NULL            -- some predicate compares its values
);

CREATE TABLE query_predicate (
    pre_id BIGINT NOT NULL,
    linear_path_id INTEGER NOT NULL,
    op TEXT NOT NULL,
    value TEXT NOT NULL,
    number DOUBLE PRECISION NOT NULL,
    chain_id BIGINT NOT NULL,          -- the conjunction's sub_id where final
    final BOOLEAN NOT NULL
);

-- Which paths and operators the rows of predicate_unroll have; most have one of few.
CREATE TABLE unroll_shape (shape INTEGER PRIMARY KEY, signature TEXT NOT NULL);

-- The equalities that rows of predicate_unroll begin with, each once: by its number alone a large table is joined in less
-- time than by path and text.
CREATE TABLE unroll_first (
    first_id INTEGER NOT NULL,
    linear_path_id INTEGER NOT NULL,
    op TEXT NOT NULL,
    value TEXT NOT NULL,
    number DOUBLE PRECISION NOT NULL
);

CREATE TABLE query_bucket (linear_path_id INTEGER NOT NULL, op TEXT NOT NULL, bounds DOUBLE PRECISION[] NOT NULL);

CREATE TABLE linear_path_br_info (
    br_info_id INTEGER PRIMARY KEY,
    linear_path_id INTEGER NOT NULL,
    br_info TEXT NOT NULL              -- bp#1=2&bp#2=3: branch point 1 is step 2, branch point 2 step 3
);

-- The branches of conjunctions that have branch points, one row each; what it compares is here once more, so that BrPred
-- need not walk the chain.
CREATE TABLE query_branch_point (
    sub_id BIGINT NOT NULL,
    branch INTEGER NOT NULL,
    linear_path_id INTEGER NOT NULL,
    op TEXT NOT NULL,
    value TEXT NOT NULL,
    number DOUBLE PRECISION NOT NULL,
    br_info_id INTEGER NOT NULL
);

-- Tables that subscriptions may compare values with, column by column: vip.id.
CREATE TABLE reference_column (reference TEXT NOT NULL);
CREATE TABLE reference_value (reference TEXT NOT NULL, value TEXT NOT NULL);

CREATE TABLE tagpath_map (tagpath_id INTEGER PRIMARY KEY, tagpath TEXT NOT NULL, inv_tagpath TEXT NOT NULL);

CREATE TABLE path_match (
    tagpath_id INTEGER NOT NULL,
    linear_path_id INTEGER NOT NULL,
    PRIMARY KEY (tagpath_id, linear_path_id)
);

-- One row per position array of the paper's bp_position.
CREATE TABLE tagpath_br_info (
    tagpath_id INTEGER NOT NULL,
    br_info_id INTEGER NOT NULL,
    points INTEGER[] NOT NULL,
    bp_position INTEGER[] NOT NULL
);
