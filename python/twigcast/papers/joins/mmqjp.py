"""Massively multi-query join processing as the paper has it: a conjunctive query per template, in SQL on DuckDB.

Algorithm 1 evaluates the templates, Algorithm 2 keeps the state, Algorithm 3 makes results of R_outT (joins §4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from twigcast.errors import OptionError
from twigcast.ir.correlation import FOLLOWED, Block, Correlation
from twigcast.papers.joins.bindings import Row, in_time, rows, shown_nodes, wanted
from twigcast.papers.joins.conjunctive import conjunctive_query, template_columns
from twigcast.papers.joins.minor import PatternNode, patterns
from twigcast.papers.joins.strategy import Arrival, Joined
from twigcast.papers.joins.template import Template, template_of
from twigcast.papers.joins.variables import Variables
from twigcast.papers.joins.witnesses import Witnesses, witnesses
from twigcast.papers.plans.nodes import Message

_STATE = """
CREATE TABLE r_bin (docid BIGINT, var1 INTEGER, var2 INTEGER, node1 INTEGER, node2 INTEGER);
CREATE TABLE r_doc (docid BIGINT, node INTEGER, str VARCHAR, num DOUBLE);
CREATE TABLE r_docts (docid BIGINT, ts BIGINT);
"""
_BIN_W = pa.schema([(name, pa.int32()) for name in ("var1", "var2", "node1", "node2")])
_DOC_W = pa.schema([("node", pa.int32()), ("str", pa.string()), ("num", pa.float64())])


@dataclass(slots=True)
class _Query:
    correlation: Correlation
    nodes: tuple[PatternNode, ...]
    compared: set[int]
    variables: tuple[int, ...]
    template: Template | None
    since: int
    """The last message before it came: it sees those after (SEMANTICS 24)."""
    blocks: tuple[int, ...]
    """The number of each of its blocks, by what is wanted of them: many queries have the same."""


@dataclass(slots=True)
class _Family:
    """The queries of one template; ``relation`` is the name of its R_T."""

    relation: str
    links: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """How many of its queries have which kinds of links."""
    fresh: list[tuple[int | None, ...]] = field(default_factory=list)


@dataclass(slots=True)
class _Trees:
    """Messages read again while one is processed, and the bindings of blocks in them."""

    messages: dict[int, Message]
    rows: dict[tuple[int, int], list[Row]] = field(default_factory=dict)


class Mmqjp:
    """Strategy ``mmqjp``. The relations have the paper's names in lower case; numbers stand for variables."""

    materialized = False

    def __init__(self) -> None:
        self.connection = _connect()
        self.connection.execute(_STATE)
        self.variables = Variables()
        self.queries: dict[int, _Query] = {}
        self.families: dict[Template, _Family] = {}
        self._single: set[int] = set()
        self._blocks: dict[tuple[Block, tuple[int, ...]], int] = {}
        self._newest: int | None = None
        self._made = 0
        self._last = -1
        self._times: dict[int, int] = {}
        self._xml: dict[int, bytes] = {}

    # -- queries

    def add(self, query: int, correlation: Correlation) -> None:
        graph, nodes = patterns(correlation)
        if not correlation.links:
            self.queries[query] = _Query(correlation, (), set(), (), None, self._last, ())
            self._single.add(query)
            return
        compared = graph.joined
        variables = self.variables.add(correlation, nodes, compared)
        template, order = template_of(graph)
        family = self.families.get(template)
        if family is None:
            self._made += 1
            family = self.families[template] = _Family(f"r_t{self._made}")
            self.create_relation(template)
        windows = [link.window for link in correlation.links]
        family.fresh.append((query, *(variables[at] for at in order), *windows))
        family.links[_kinds(correlation)] += 1
        asked = [(block, wanted(correlation, at)) for at, block in enumerate(correlation.blocks)]
        blocks = tuple(self._blocks.setdefault(one, len(self._blocks)) for one in asked)
        self.queries[query] = _Query(correlation, nodes, compared, variables, template, self._last, blocks)

    def remove(self, query: int) -> None:
        known = self.queries.pop(query)
        self._single.discard(query)
        if known.template is None:
            return
        self.variables.remove(known.nodes, known.variables, known.compared)
        family = self.families[known.template]
        self._load(family, known.template)
        self.connection.execute(f"DELETE FROM {family.relation} WHERE qid = ?", [query])
        family.links -= Counter([_kinds(known.correlation)])
        if not family.links:
            self.connection.execute(f"DROP TABLE {family.relation}")
            del self.families[known.template]

    def create_relation(self, template: Template) -> None:
        """Create R_T, empty."""
        columns = ", ".join(f"{name} BIGINT" for name in template_columns(template))
        self.connection.execute(f"CREATE TABLE {self.families[template].relation} ({columns})")

    def _load(self, family: _Family, template: Template) -> None:
        """Queries that came since the last message, all at once."""
        if family.fresh:
            names = template_columns(template)
            columns = [pa.array(column, pa.int64()) for column in zip(*family.fresh, strict=True)]
            self.connection.register("fresh", pa.table(columns, names=names))
            self.connection.execute(f"INSERT INTO {family.relation} SELECT * FROM fresh")
            self.connection.unregister("fresh")
            family.fresh = []

    # -- messages

    def process(self, arrival: Arrival) -> list[Joined]:
        """Algorithm 1."""
        message = Message(arrival.xml)
        trees = _Trees({arrival.number: message})
        self._times[arrival.number] = arrival.time
        found = self._of_one_block(arrival, message)
        witnessed = self.witness(arrival, message)
        if witnessed.bins:
            for current, pairs in self.join(arrival, witnessed):
                found += self.results(pairs, current, arrival.number, trees)
            self.keep(arrival)
            self._xml[arrival.number] = arrival.xml
        else:
            del self._times[arrival.number]
        self._newest = arrival.time if self._newest is None else max(self._newest, arrival.time)
        self._last = max(self._last, arrival.number)
        return sorted(found)

    def join(self, arrival: Arrival, witnessed: Witnesses) -> list[tuple[int, Sequence[tuple[int, ...]]]]:
        """The block that the message is, and the queries and messages that it matches as that, template by template."""
        self.load_witnesses(witnessed)
        found = []
        for template, family in self.families.items():
            self._load(family, template)
            for current in self._places(template, family, arrival):
                found.append((current, self.matched(template, family, current)))
        return found

    def _places(self, template: Template, family: _Family, arrival: Arrival) -> list[int]:
        """The blocks that the message may be: while messages come in order, what follows it is not there yet."""
        blocks = range(max(template.blocks) + 1)
        if self._newest is not None and arrival.time < self._newest:
            return list(blocks)
        return [block for block in blocks if any(FOLLOWED not in kinds[block:] for kinds in family.links)]

    def witness(self, arrival: Arrival, message: Message) -> Witnesses:
        return witnesses(self.variables, arrival, message)

    def load_witnesses(self, found: Witnesses) -> None:
        """R_binW and R_docW of the message at hand."""
        bins = [pa.array(column, pa.int32()) for column in zip(*found.bins, strict=True)]
        self.connection.register("r_binw", pa.Table.from_arrays(bins, schema=_BIN_W))
        docs = [(node, *value) for node, value in found.docs.items()]
        columns = [pa.array(column, one.type) for column, one in zip(zip(*docs, strict=True), _DOC_W, strict=True)]
        self.connection.register("r_docw", pa.Table.from_arrays(columns, schema=_DOC_W))

    def matched(self, template: Template, family: _Family, current: int) -> Sequence[tuple[int, ...]]:
        """The queries of a template and the messages, but for the one at hand, that R_outT has for them."""
        others = ", ".join(f"docid{block + 1}" for block in range(max(template.blocks) + 1) if block != current)
        sql = conjunctive_query(template, family.relation, current, materialized=self.materialized)
        return self.rows(f"SELECT DISTINCT qid, {others} FROM ({sql})")

    def r_out(self, template: Template, current: int) -> list[tuple[Any, ...]]:
        """R_outT in full, as the paper has it."""
        family = self.families[template]
        self._load(family, template)
        return self.rows(conjunctive_query(template, family.relation, current, materialized=self.materialized))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        return found

    def keep(self, arrival: Arrival) -> None:
        """Algorithm 2."""
        number = arrival.number
        self.connection.execute(f"INSERT INTO r_bin SELECT {number}, var1, var2, node1, node2 FROM r_binw")
        self.connection.execute(f"INSERT INTO r_doc SELECT {number}, node, str, num FROM r_docw")
        self.connection.execute("INSERT INTO r_docts VALUES (?, ?)", [number, arrival.time])

    def results(self, pairs: Sequence[tuple[int, ...]], current: int, number: int, trees: _Trees) -> list[Joined]:
        """Algorithm 3: what is within its windows, and the nodes that SELECT shows."""
        found: list[Joined] = []
        for qid, *others in pairs:
            query = self.queries[qid]
            messages = (*others[:current], number, *others[current:])
            if min(messages) <= query.since:
                continue
            links = query.correlation.links
            if not in_time(links, [self._times[one] for one in messages]):
                continue
            every = [self._rows(query, at, one, trees) for at, one in enumerate(messages)]
            found += [Joined(qid, messages, nodes) for nodes in shown_nodes(query.correlation, every)]
        return found

    def _rows(self, query: _Query, at: int, number: int, trees: _Trees) -> list[Row]:
        key = query.blocks[at], number
        known = trees.rows.get(key)
        if known is None:
            message = trees.messages.get(number)
            if message is None:
                message = trees.messages[number] = Message(self._xml[number])
            known = trees.rows[key] = rows(query.correlation.blocks[at], wanted(query.correlation, at), message)
        return known

    def _of_one_block(self, arrival: Arrival, message: Message) -> list[Joined]:
        found: list[Joined] = []
        for number in self._single:
            correlation = self.queries[number].correlation
            if arrival.is_read_by(correlation.blocks[0]):
                bound = rows(correlation.blocks[0], wanted(correlation, 0), message)
                some = shown_nodes(correlation, [bound])
                found += [Joined(number, (arrival.number,), nodes) for nodes in some]
        return found

    def expire(self, before: int) -> None:
        gone = [number for number, time in self._times.items() if time < before]
        if not gone:
            return
        for number in gone:
            del self._times[number]
            self._xml.pop(number, None)
        for table in ("r_bin", "r_doc"):
            self.connection.execute(
                f"DELETE FROM {table} WHERE docid IN (SELECT docid FROM r_docts WHERE ts < ?)", [before]
            )
        self.connection.execute("DELETE FROM r_docts WHERE ts < ?", [before])


def _kinds(correlation: Correlation) -> tuple[str, ...]:
    return tuple(link.kind for link in correlation.links)


def _connect() -> Any:
    try:
        import duckdb
    except ImportError:
        raise OptionError(
            "no-duckdb", "this strategy runs on DuckDB, which is not installed", hint="pip install twigcast[duckdb]"
        ) from None
    # Joins are written in the order they are to be done in: what makes it good is known here and not from statistics.
    return duckdb.connect(":memory:", config={"threads": 1, "disabled_optimizers": "join_order"})
