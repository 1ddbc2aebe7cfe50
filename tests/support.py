"""What several tests share: the modes, the third-party data, and random documents and queries with lxml as oracle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from lxml import etree

from twigcast import Engine, Subscription

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"

NAMES = ("a", "b", "c", "a-rather-long-name")
URIS = ("urn:p", "urn:q")
PREFIXES = ("p", "q", "r")
QUERY_PREFIXES = {"x": "urn:p", "y": "urn:q"}
TEXTS = ("t", " ", "\n", "&amp;", "&#65;", "&#x20AC;", "<![CDATA[<a>]]>", "é", "]] >", "a&lt;b&gt;c")
ASIDE = ("<!-- <a/> -->", "<?pi <a/>?>")


@dataclass(frozen=True)
class Query:
    """One query as each side writes it."""

    text: str
    default: str | None
    oracle: str


def random_document(random: Random, size: int = 30) -> bytes:
    """A recursive document over few names; prefixes are declared, redeclared and undeclared anywhere."""
    out: list[str] = []
    if random.random() < 0.2:
        out.append('<?xml version="1.0" encoding="utf-8"?>')
    if random.random() < 0.2:
        out.append(random.choice(ASIDE))
    if random.random() < 0.15:
        # libxml2 forgets the default namespace inside an entity's markup, so this one says which it means
        out.append('<!DOCTYPE a [<!ENTITY e "v"><!ENTITY m "<b xmlns=\'\' c=\'1\'/>w"><!ATTLIST c a CDATA "d">]>')
        texts: tuple[str, ...] = (*TEXTS, "&e;", "&m;")
    else:
        texts = TEXTS
    left = [random.randint(1, size)]

    def element(scope: dict[str, str], depth: int) -> None:
        left[0] -= 1
        declared: dict[str, str] = {}
        while random.random() < 0.25:
            prefix = random.choice(("", *PREFIXES))
            declared[prefix] = random.choice(URIS if prefix else (*URIS, ""))
        scope = {**scope, **declared}
        name = _qname(random, scope, default=True)
        attributes = [f'xmlns{":" if p else ""}{p}="{uri}"' for p, uri in declared.items()]
        seen = set()
        while random.random() < 0.3:
            attribute = random.choice(("xml:lang", "xml:space")) if random.random() < 0.1 else ""
            attribute = attribute or _qname(random, scope, default=False)
            prefix, _, local = attribute.rpartition(":")
            if (scope.get(prefix, prefix) if prefix else "", local) not in seen:
                seen.add((scope.get(prefix, prefix) if prefix else "", local))
                value = "default" if attribute == "xml:space" else random.choice(("", "v", "&lt;", "a\tb"))
                attributes.append(f"{attribute}={random.choice(_QUOTES).format(value)}")
        random.shuffle(attributes)
        out.append(f"<{name}{''.join(random.choice((' ', chr(10))) + a for a in attributes)}")
        if left[0] <= 0 or random.random() < 0.2:
            out.append(random.choice(("/>", " />", f"></{name}>")))
            return
        out.append(">")
        while left[0] > 0 and depth < 12 and random.random() < 0.75:
            what = random.random()
            if what < 0.7:
                element(scope, depth + 1)
            elif what < 0.9:
                out.append(random.choice(texts))
            else:
                out.append(random.choice(ASIDE))
        out.append(f"</{name}{random.choice(('', ' '))}>")

    element({}, 0)
    if random.random() < 0.2:
        out.append(random.choice(("\n", *ASIDE)))
    return "".join(out).encode()


_QUOTES = ('"{}"', "'{}'")


def _qname(random: Random, scope: dict[str, str], *, default: bool) -> str:
    prefix = random.choice(["", "", *(p for p in scope if p)])
    return f"{prefix}:{random.choice(NAMES)}" if prefix else random.choice(NAMES)


def random_query(random: Random, depth: int = 5) -> Query:
    """A structural path as Twigcast takes it, and the same for XPath 1.0, which has no default namespace."""
    default = random.choice((None, None, None, "urn:p"))
    ours, oracle = "", ""
    for _ in range(random.randint(1, depth)):
        axis = random.choice(("/", "/", "//"))
        a, b = _test(random, default, attribute=False)
        ours, oracle = ours + axis + a, oracle + axis + b
    last = random.random()
    if last < 0.15:
        a, b = _test(random, default, attribute=True)
        axis = random.choice(("/@", "//@"))
        ours, oracle = ours + axis + a, oracle + axis + b
    elif last < 0.3:
        axis = random.choice(("/", "//"))
        ours, oracle = f"{ours}{axis}text()", f"{oracle}{axis}text()"
    return Query(ours, default, f"boolean({oracle})")


def _test(random: Random, default: str | None, *, attribute: bool) -> tuple[str, str]:
    local = random.choice((*NAMES, "unheard-of"))
    kind = random.random()
    if kind < 0.2:
        return "*", "*"
    if kind < 0.35:
        prefix = random.choice((*QUERY_PREFIXES, "xml") if attribute else tuple(QUERY_PREFIXES))
        local = random.choice(("*", "lang" if prefix == "xml" else local))
        return f"{prefix}:{local}", f"{prefix}:{local}"
    if kind < 0.45:
        prefix, uri = random.choice([*QUERY_PREFIXES.items(), ("", "")])
        return f"{{{uri}}}{local}", f"{prefix}:{local}" if prefix else local
    return local, local if attribute or not default else f"x:{local}"


def oracle(document: bytes, queries: Iterable[Query]) -> set[int]:
    """The indexes of the queries that lxml finds true."""
    parser = etree.XMLParser(resolve_entities=True, attribute_defaults=True, no_network=True)
    tree = etree.fromstring(document, parser).getroottree()
    return {i for i, q in enumerate(queries) if tree.xpath(q.oracle, namespaces=QUERY_PREFIXES)}


def subscription(id: int, query: Query) -> Subscription:
    return Subscription(id, query.text, None, query.default)


def engine_for(**options: object) -> Engine:
    return Engine(namespaces=QUERY_PREFIXES, **options)  # type: ignore[arg-type]
