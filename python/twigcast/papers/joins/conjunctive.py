"""The conjunctive query of a template, CQ_T, in SQL (joins §4.4): all queries of the template evaluated at once.

One block is matched by the message at hand, whose relations end in ``w``, the others by messages before it. Every
structural edge of the template is a copy of R_bin, every node that is compared a copy of R_doc; with views
materialised (§5), both are one copy of R_L or R_R where the comparison is an equality.
"""

from __future__ import annotations

from twigcast.papers.joins.template import Template

_NUMERIC = ("<", "<=", ">", ">=")


def template_columns(template: Template) -> list[str]:
    """Those of R_T: the query, its variables, and the window of each link."""
    links = max(template.blocks)
    return ["qid", *(f"var{at + 1}" for at in range(len(template.blocks))), *(f"wl{at + 1}" for at in range(links))]


def conjunctive_query(template: Template, relation: str, current: int, *, materialized: bool = False) -> str:
    """R_outT: the query, the messages of the other blocks, the nodes of all variables, the windows. ``relation`` is
    R_T, ``current`` the block of the message at hand."""
    return _Sql(template, relation, current, materialized).text()


class _Sql:
    def __init__(self, template: Template, relation: str, current: int, materialized: bool) -> None:
        self.template = template
        self.relation = relation
        self.current = current
        equal = {end for edge in template.edges if edge.op == "=" for end in (edge.left, edge.right)}
        compared = {end for edge in template.edges for end in (edge.left, edge.right)}
        self.sliced = equal if materialized else set()
        self.valued = compared - self.sliced
        self.children: list[list[int]] = [[] for _ in template.parents]
        for at, parent in enumerate(template.parents):
            if parent is not None:
                self.children[parent].append(at)
        self.tables: dict[str, str] = {}
        self.conditions: list[str] = []

    def text(self) -> str:
        for at in range(len(self.template.parents)):
            self.node(at)
        self.messages()
        for left, op, right in self.template.edges:
            column = "num" if op in _NUMERIC else "str"
            sign = "<>" if op == "!=" else op
            self.conditions.append(f"{self.value(left)}.{column} {sign} {self.value(right)}.{column}")
        links = max(self.template.blocks)
        columns = ["t.qid"]
        columns += [f"{self.edge(self.first(block))}.docid AS docid{block + 1}" for block in self.others()]
        columns += [f"{self.bound(at)} AS node{at + 1}" for at in range(len(self.template.parents))]
        columns += [f"t.wl{at + 1}" for at in range(links)]
        return f"SELECT {', '.join(columns)} FROM {', '.join(self.in_order())} WHERE {' AND '.join(self.conditions)}"

    def in_order(self) -> list[str]:
        """The tables as they are best joined: the queries; then for each equality what the message has for it, which
        is little, the values before that are the same, and what these belong to."""
        order = ["t"]
        for left, _, right in sorted(self.template.edges, key=lambda edge: edge.op != "="):
            for at in (left, right) if self.is_current(left) else (right, left):
                order += [f"b{at + 1}", f"d{at + 1}"] if self.is_current(at) else [f"d{at + 1}", f"b{at + 1}"]
                above = self.template.parents[at]
                while above is not None:
                    order.append(f"b{above + 1}")
                    above = self.template.parents[above]
        tables = {"t": self.relation, **self.tables}
        return [f"{tables[alias]} {alias}" for alias in dict.fromkeys((*order, *tables)) if alias in tables]

    def others(self) -> list[int]:
        return [block for block in range(max(self.template.blocks) + 1) if block != self.current]

    def is_current(self, at: int) -> bool:
        return self.template.blocks[at] == self.current

    def is_alone(self, at: int) -> bool:
        return self.template.parents[at] is None and not self.children[at]

    def edge(self, at: int) -> str:
        """The copy of R_bin that leads to a node; of a root, that to its first child."""
        if self.template.parents[at] is None and not self.is_alone(at):
            return f"b{self.children[at][0] + 1}"
        return f"b{at + 1}"

    def bound(self, at: int) -> str:
        """The column with the node of a variable."""
        is_root = self.template.parents[at] is None and not self.is_alone(at)
        return f"{self.edge(at)}.{'node1' if is_root else 'node2'}"

    def value(self, at: int) -> str:
        return f"b{at + 1}" if at in self.sliced and self.has_edge(at) else f"d{at + 1}"

    def has_edge(self, at: int) -> bool:
        return self.template.parents[at] is not None or self.is_alone(at)

    def first(self, block: int) -> int:
        return self.template.blocks.index(block)

    def node(self, at: int) -> None:
        current = self.is_current(at)
        parent = self.template.parents[at]
        if self.has_edge(at):
            sliced = at in self.sliced
            table = ("r_r" if current else "r_l") if sliced else ("r_binw" if current else "r_bin")
            self.tables[f"b{at + 1}"] = table
            above = at if parent is None else parent
            self.conditions.append(f"b{at + 1}.var1 = t.var{above + 1}")
            self.conditions.append(f"b{at + 1}.var2 = t.var{at + 1}")
            if parent is not None and self.bound(parent) != f"b{at + 1}.node1":
                self.conditions.append(f"b{at + 1}.node1 = {self.bound(parent)}")
            first = self.edge(self.first(self.template.blocks[at]))
            if not current and first != f"b{at + 1}":
                self.conditions.append(f"b{at + 1}.docid = {first}.docid")
        if at in self.valued or (at in self.sliced and not self.has_edge(at)):
            self.tables[f"d{at + 1}"] = "r_docw" if current else "r_doc"
            self.conditions.append(f"d{at + 1}.node = {self.bound(at)}")
            if not current:
                self.conditions.append(f"d{at + 1}.docid = {self.edge(self.first(self.template.blocks[at]))}.docid")

    def messages(self) -> None:
        """No message twice (SEMANTICS 19); the one at hand is not among those before."""
        others = [self.edge(self.first(block)) for block in self.others()]
        for at, one in enumerate(others):
            self.conditions += [f"{one}.docid <> {other}.docid" for other in others[:at]]
