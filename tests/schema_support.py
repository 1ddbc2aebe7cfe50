"""Small recursive DTDs, random twigs over a vocabulary, and documents that are valid."""

from __future__ import annotations

from importlib.resources import files
from random import Random

from twigcast.ir.pattern import Node, Step, Twig
from twigcast.schema import Schema, dtd_schema, read_dtd
from twigcast.workload import DocumentGenerator

LOOPY = b"""
<!ELEMENT r (a | b | e)*> <!ELEMENT a (b?, c?, a*)> <!ATTLIST a x CDATA #IMPLIED>
<!ELEMENT b (c | d)*> <!ELEMENT c (#PCDATA | d)*> <!ATTLIST c x CDATA #IMPLIED y CDATA #IMPLIED>
<!ELEMENT d (e?)> <!ELEMENT e (f*)> <!ELEMENT f (b?)> <!ATTLIST f z CDATA #IMPLIED>
"""
# b nests in itself, but never as a child of a: the paper's claim 5 sees it, an antichain test alone does not
UNEVEN = b"""
<!ELEMENT r (a | b)*> <!ELEMENT a (b*)> <!ELEMENT b (#PCDATA | b | t)*> <!ELEMENT t (#PCDATA)>
<!ATTLIST b x CDATA #IMPLIED>
"""


def text_of(name: str) -> bytes:
    known = {"loopy": LOOPY, "uneven": UNEVEN}
    return known[name] if name in known else (files("twigcast.workload") / "dtds" / f"{name}.dtd").read_bytes()


NAMES = ("bib", "book", "loopy", "uneven")


def schema_and_documents(name: str, count: int, seed: int = 0) -> tuple[Schema, list[bytes]]:
    text = text_of(name)
    maker = DocumentGenerator(read_dtd(text), depth=7, max_repeats=2, max_value=3, max_elements=60, seed=seed)
    schema = dtd_schema(text)
    return schema, [one for one in maker.documents(2 * count) if not schema.validate(one)][:count]


def random_twig(random: Random, schema: Schema, most: int = 4) -> Twig:
    names = [*sorted({one.local or "" for one in schema.graph.declarations}), "nowhere"]
    nodes = []
    for _ in range(random.randint(1, most)):
        axis = "descendant" if random.random() < 0.45 else "child"
        local = None if random.random() < 0.15 else random.choice(names)
        nodes.append(Node(Step(axis, "element", "" if local else None, local)))
    kind = random.random()
    if kind < 0.15:
        attribute = random.choice(["x", "y", "z", "id", "source", "year"])
        nodes.append(Node(Step(random.choice(["child", "descendant"]), "attribute", "", attribute)))
    elif kind < 0.25:
        nodes.append(Node(Step(random.choice(["child", "descendant"]), "text")))
    return Twig(tuple(nodes))
