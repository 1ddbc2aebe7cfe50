"""PostgreSQL, a real server: the same answers, and whole subscriptions whatever is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from relational_random import check_expressions, check_twigs, expression_lists, seeds, twig_lists

from servers import postgresql
from twigcast import Engine, Subscription
from twigcast.errors import TwigcastError
from twigcast.lang import ast
from twigcast.papers.relational import PLANS, RelationalEngine

sys.path.append(str(Path(__file__).parents[1] / "lang"))

from lang_documents import document
from yfilter_sets import SETS, check_set

QUERIES = [
    "/a//b[.//c and d = '1']/@a",
    "//a[b = 1 and c != '2']",
    "//a[b > 0 and .//c <= 2 or d]",
    "//*[a and b and c]",
    "//b[@a != 1][c]",
    "//a/text() = 'x'",
    "//a[b[c]/d and .//d = 2]",
    "/*[.//a < 2 and .//a > 0.5]//d",
    "//c[. = '' or . = '1.0']",
    "//a//a[b]//c[d]",
    "//node()[. = 2]",
]


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(twig_lists, seeds)
def test_twigs_agree(postgresql_server: postgresql.Server, texts: list[str], seed: int) -> None:
    check_twigs(texts, seed, postgresql_server.empty)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression_lists, seeds)
def test_expressions_agree_or_are_refused(
    postgresql_server: postgresql.Server, exprs: list[ast.Expr], seed: int
) -> None:
    check_expressions(exprs, seed, postgresql_server.empty)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(twig_lists, seeds)
def test_many_twigs_agree(postgresql_server: postgresql.Server, texts: list[str], seed: int) -> None:
    check_twigs(texts, seed, postgresql_server.empty)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression_lists, seeds)
def test_many_expressions_agree_or_are_refused(
    postgresql_server: postgresql.Server, exprs: list[ast.Expr], seed: int
) -> None:
    check_expressions(exprs, seed, postgresql_server.empty)


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", SETS)
def test_yfilters_sets(postgresql_url: str, shared_data: Path, name: str, plan: str) -> None:
    check_set(RelationalEngine(postgresql_url, plan=plan), shared_data, name)


@pytest.mark.parametrize("plan", PLANS)
def test_the_same_answers(postgresql_url: str, plan: str) -> None:
    automaton = Engine()
    small = {"unroll": {"unroll": 2}, "share-bucket": {"buckets": 1}}.get(plan, {})
    engine = RelationalEngine(postgresql_url, plan=plan, **small)
    subscriptions = [Subscription(f"q{i}", query) for i, query in enumerate(QUERIES)]
    automaton.add_many(subscriptions)
    engine.add_many(subscriptions)
    source = random.Random(7)
    messages = [document(source) for _ in range(40)]
    expected = [automaton.match(xml) for xml in messages]
    batch = pa.record_batch({"id": range(40), "xml": pa.array(messages, pa.binary())})
    assert engine.match_batch(batch).column("matches").to_pylist() == expected
    assert sum(map(len, expected)) >= 20
    # another process, which finds the tag paths there
    other = RelationalEngine(postgresql_url)
    assert other.plan.name == plan
    assert [other.match(xml) for xml in messages[:3]] == expected[:3]
    other.remove("q2")
    other.add("//d", id="new")
    assert engine.match(b"<d/>") == ["new"]
    assert "q2" not in engine.match(messages[0])
    for one in (engine, other):
        one.close()


class Killable:
    """A server of its own, whose processes can all be killed at once and started again on the same data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = postgresql._programs()
        if self.programs is None:
            pytest.skip("needs PostgreSQL's server programs (apt install postgresql)")
        self.user = postgresql._other_user(folder)
        (folder / "password").write_text(postgresql.PASSWORD)
        (folder / "password").chmod(0o644)
        initdb = [self.programs / "initdb", "-D", folder / "data", "-U", postgresql.USER, "-A", "scram-sha-256"]
        initdb += ["-E", "UTF8", "--locale=C", "--no-sync", f"--pwfile={folder / 'password'}"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **self.user)
        self.server = postgresql.Server(postgresql._free_port())
        self.start()

    def start(self) -> None:
        assert self.programs is not None
        settings = {"port": self.server.port, "unix_socket_directories": self.folder, "listen_addresses": "127.0.0.1"}
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *arguments],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self.user,
            )
        postgresql._wait(self.server, self.process, self.folder / "log")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def killable() -> Iterator[Killable]:
    pytest.importorskip("psycopg", reason="needs the package psycopg")
    folder = Path(tempfile.mkdtemp(prefix="twigcast-killed-"))
    server = None
    try:
        server = Killable(folder)
        yield server
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("plan", ["unroll", "share"])
def test_killed_in_the_middle_of_a_load(killable: Killable, plan: str) -> None:
    """After a restart every subscription of a load is there, whole, or none is."""
    url = killable.server.url("postgres")
    loads = [
        [Subscription(f"{load}-{i}", f"//a[b = 'v{i}' and c > {i} and .//d[@a and @b]]") for i in range(200)]
        for load in range(3)
    ]
    engine = RelationalEngine(url, plan=plan)
    engine.add_many(loads[0])
    # the moment differs: before the first predicate, between tables, before the commit
    for table in (
        "query_linear_path",
        "predicate_unroll" if plan == "unroll" else "new_predicate",
        "query_subscription",
    ):
        insert = engine.database.insert

        def until(name: str, rows: pa.Table, table: str = table, insert: Any = insert) -> None:
            insert(name, rows)
            if name == table:
                killable.kill()

        engine.database.insert = until  # type: ignore[method-assign]
        with pytest.raises(TwigcastError):
            engine.add_many([*loads[1], Subscription("new path", f"//{table}[x = 1]")])
        killable.start()
        engine = RelationalEngine(url)
        assert sorted(s.id for s in engine.subscriptions()) == sorted(s.id for s in loads[0])
        ((whole,),) = engine.database.rows(
            "SELECT count(*) FROM query_branch_point WHERE sub_id NOT IN (SELECT number FROM query_subscription)"
        )
        assert whole == 0
    engine.add_many(loads[2])
    xml = b"<a><b>v7</b><c>8</c><d a='1' b='1'/></a>"
    assert engine.match(xml) == ["0-7", "2-7"]
    engine.close()
