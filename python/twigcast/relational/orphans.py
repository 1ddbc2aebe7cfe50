"""Garbage: what no subscription uses any more (relational §3.2)."""

from __future__ import annotations

from twigcast.relational.database import Database
from twigcast.relational.plans import Plan


def delete_orphans(database: Database, plan: Plan) -> dict[str, int]:
    """Within a change; says how many rows of each table went."""
    uses = "SELECT linear_path_id FROM query_predicate UNION SELECT linear_path_id FROM query_branch_point"
    if plan.unrolls:
        for i in range(1, plan.unroll + 1):
            uses += f" UNION SELECT path{i} FROM predicate_unroll"
    orphans = {
        "linear_path_br_info": "br_info_id NOT IN (SELECT br_info_id FROM query_branch_point)",
        "query_linear_path": f"id NOT IN ({uses})",
        "path_match": "linear_path_id NOT IN (SELECT id FROM query_linear_path)",
        "tagpath_br_info": "br_info_id NOT IN (SELECT br_info_id FROM linear_path_br_info)",
        "tagpath_map": "tagpath_id NOT IN (SELECT tagpath_id FROM path_match)",
        "query_bucket": "linear_path_id NOT IN (SELECT id FROM query_linear_path)",
        "unroll_first": "first_id NOT IN (SELECT first_id FROM predicate_unroll)",
        "unroll_shape": "shape NOT IN (SELECT shape FROM predicate_unroll)",
    }
    removed = {}
    for table, condition in orphans.items():
        ((removed[table],),) = database.rows(f"SELECT count(*) FROM {table} WHERE {condition}")
        if removed[table]:
            database.execute(f"DELETE FROM {table} WHERE {condition}")
    return removed
