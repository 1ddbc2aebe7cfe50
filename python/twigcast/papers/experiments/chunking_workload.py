"""The two scenarios of the eXtract paper (section 5, appendices A1 to A3), made anew: neither file was published.

What the paper says of them is kept: the schemas, the number of elements, the proportions of the chunks, and the shares
of ``//`` and of filters among the queries. Which queries go where is only known as far as the text tells: what is left
to the potpourri in scenario 1, and the percentages of A3 in scenario 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

SHARE_OF_DESCENDANTS = 0.3
SHARE_OF_FILTERS = 0.3

_PERSON = "(name, email?, url?, link?)"
UNIVERSITY_DTD = "\n".join(
    [
        "<!ELEMENT db (student | professor | assistant | secretary | lecturer)+>",
        *(
            f"<!ELEMENT {one} {_PERSON}><!ATTLIST {one} id ID #REQUIRED>"
            for one in ("student", "professor", "assistant", "secretary", "lecturer")
        ),
        "<!ELEMENT name (#PCDATA)><!ELEMENT email (#PCDATA)>",
        "<!ELEMENT url (#PCDATA)><!ATTLIST url href CDATA #REQUIRED>",
        "<!ELEMENT link (#PCDATA)><!ATTLIST link manager IDREF #IMPLIED subordinates IDREFS #IMPLIED>",
    ]
).encode()
"""A1, with the order of the five blocks left open: section 5.1 has them arbitrarily mixed within the file."""

# KB per chunk in A1. Which is whose is not said, but for the students', which A1 adds last and section 5.1 names first.
SIZES = {"professor": 170, "secretary": 206, "assistant": 1233, "lecturer": 1145, "student": 1537}

# Queries in percent, by the size of the set; the lightest ones are those that section 5.1 sends to the potpourri.
DISTRIBUTIONS: dict[int, dict[str, int]] = {
    100: {"professor": 24, "secretary": 22, "assistant": 21, "lecturer": 17, "student": 16},
    500: {"professor": 21, "secretary": 15, "assistant": 24, "lecturer": 17, "student": 23},
    2000: {"professor": 15, "secretary": 17, "assistant": 22, "lecturer": 21, "student": 25},
}

GIVEN = ("Ada", "Bela", "Cora", "Dirk", "Elsa", "Finn", "Gerd", "Hila", "Ivan", "Jana", "Karl", "Lena", "Mika", "Nora")
FAMILY = ("Adler", "Brandt", "Conrad", "Dorn", "Ebert", "Falk", "Graf", "Hahn", "Jung", "Kern", "Lang", "Moser", "Noll")


def university(elements: int = 130_000, seed: int = 1) -> bytes:
    """A document of about so many elements, the kinds of people mixed, in the proportions of A1."""
    chance = Random(seed).random
    kinds, sizes = list(SIZES), list(SIZES.values())
    order = Random(seed)
    out = ["<db>"]
    made, number = 1, 0
    while made < elements:
        number += 1
        kind = order.choices(kinds, sizes)[0]
        given, family = GIVEN[int(chance() * len(GIVEN))], FAMILY[int(chance() * len(FAMILY))]
        out.append(f'\n<{kind} id="p{number}"><name>{given} {family}</name>')
        made += 2
        if chance() < 0.9:
            out.append(f"<email>{given}.{number}@uni.example</email>")
            made += 1
        if chance() < 0.6:
            out.append(f'<url href="http://uni.example/{number}">home of {given}</url>')
            made += 1
        if chance() < 0.5:
            others = f"p{int(chance() * number) + 1} p{int(chance() * number) + 1}"
            out.append(f'<link manager="p{int(chance() * number) + 1}" subordinates="{others}"/>')
            made += 1
        out.append(f"</{kind}>")
    out.append("\n</db>\n")
    return "".join(out).encode()


def university_queries(count: int, seed: int = 1) -> list[str]:
    random = Random(seed)
    shares = DISTRIBUTIONS.get(count, DISTRIBUTIONS[2000])
    return [_university_query(random, kind) for kind in _drawn(shares, count, random)]


def _university_query(random: Random, kind: str) -> str:
    leaf = random.choice(["name", "email", "url", "link", "url/@href", "link/@manager"])
    filters = ""
    if random.random() < SHARE_OF_FILTERS:
        given, family = random.choice(GIVEN), random.choice(FAMILY)
        filters = random.choice(
            [
                "[email]",
                "[link/@manager]",
                f'[name = "{given} {family}"]',
                f'[@id = "p{random.randint(1, 30_000)}"]',
                f'[contains(email, "{given}")]',
            ]
        )
    if random.random() < SHARE_OF_DESCENDANTS:
        return random.choice([f"//{kind}{filters}/{leaf}", f"/db/{kind}{filters}//{leaf}"])
    return f"/db/{kind}{filters}/{leaf}"


# A2
EJB_DTD = b"""
<!ELEMENT assembly-descriptor (container-transaction+, security-role+, method-permission+)>
<!ELEMENT cmp-field (field-name)>
<!ELEMENT container-transaction (method+, trans-attribute)>
<!ELEMENT ejb-jar (enterprise-beans, assembly-descriptor)>
<!ELEMENT ejb-ref (ejb-ref-name, ejb-ref-type, home, remote, ejb-link)>
<!ELEMENT enterprise-beans (message-driven, session+, entity+)>
<!ELEMENT entity (ejb-name, home, remote, ejb-class, persistence-type, prim-key-class, reentrant, cmp-field+,
  primkey-field?)>
<!ELEMENT message-driven (ejb-name, ejb-class, message-selector, transaction-type, acknowledge-mode,
  message-driven-destination, ejb-ref+)>
<!ELEMENT message-driven-destination (destination-type)>
<!ELEMENT message-selector EMPTY>
<!ELEMENT method (ejb-name | method | method-intf | method-name | method-params)*>
<!ELEMENT method-params (method-param*)>
<!ELEMENT method-permission (role-name, method+)>
<!ELEMENT run-as (role-name)>
<!ELEMENT security-identity (run-as)>
<!ELEMENT security-role (description, role-name)>
<!ELEMENT session (ejb-class | ejb-name | ejb-ref | home | remote | security-identity | session-type |
  transaction-type)*>
"""
# all others are text
EJB_DTD += "".join(
    f"<!ELEMENT {one} (#PCDATA)>"
    for one in [
        *("acknowledge-mode", "description", "destination-type", "ejb-class", "ejb-link", "ejb-name", "ejb-ref-name"),
        *("ejb-ref-type", "field-name", "home", "method-intf", "method-name", "method-param", "persistence-type"),
        *("prim-key-class", "primkey-field", "reentrant", "remote", "role-name", "session-type", "trans-attribute"),
        "transaction-type",
    ]
).encode()

# A3: prefix -> elements in its chunk, and the share of the queries in percent. The last three add up to 46.
CARDINALITIES = {
    "assembly-descriptor/container-transaction": (1_351, 19.3),
    "assembly-descriptor/security-role": (41, 17.1),
    "assembly-descriptor/method-permission": (2_583, 18.2),
    "enterprise-beans/message-driven": (44, 15.1),
    "enterprise-beans/session": (162, 16.2),
    "enterprise-beans/entity": (497, 14.1),
}


def ejb_descriptor(seed: int = 1) -> bytes:
    """A deployment descriptor with the cardinalities of A3."""
    random = Random(seed)

    def block(path: str, make: Callable[[Random], str]) -> str:
        made: list[str] = []
        left = CARDINALITIES[path][0]
        while left > 0:
            made.append(make(random))
            left -= made[-1].count("</")
        return "\n".join(made)

    beans = [
        _message_driven(random, (CARDINALITIES["enterprise-beans/message-driven"][0] - 8) // 6),
        block("enterprise-beans/session", _session),
        block("enterprise-beans/entity", _entity),
    ]
    assembly = [
        block("assembly-descriptor/container-transaction", _transaction),
        block("assembly-descriptor/security-role", _role),
        block("assembly-descriptor/method-permission", _permission),
    ]
    return _tag("ejb-jar", _tag("enterprise-beans", *beans), _tag("assembly-descriptor", *assembly)).encode()


def _tag(name: str, *content: str) -> str:
    return f"<{name}>{''.join(content)}</{name}>"


def _texts(**texts: str) -> str:
    return "".join(_tag(name.replace("_", "-"), text) for name, text in texts.items())


def _bean(random: Random) -> str:
    return f"{random.choice(FAMILY)}{random.randint(1, 30)}"


def _reference(random: Random) -> str:
    bean = _bean(random)
    return _tag(
        "ejb-ref",
        _texts(ejb_ref_name=f"ejb/{bean}", ejb_ref_type="Session", home=f"{bean}Home", remote=bean, ejb_link=bean),
    )


def _message_driven(random: Random, references: int) -> str:
    return _tag(
        "message-driven",
        _texts(ejb_name=_bean(random), ejb_class="org.example.Listener", message_selector=""),
        _texts(transaction_type="Container", acknowledge_mode="Auto-acknowledge"),
        _tag("message-driven-destination", _texts(destination_type="javax.jms.Queue")),
        *(_reference(random) for _ in range(references)),
    )


def _session(random: Random) -> str:
    bean = _bean(random)
    parts = [_texts(ejb_name=bean, home=f"{bean}Home", remote=bean, ejb_class=f"org.example.{bean}")]
    parts.append(_texts(session_type=random.choice(["Stateless", "Stateful"]), transaction_type="Container"))
    if random.random() < 0.5:
        parts.append(_reference(random))
    if random.random() < 0.3:
        parts.append(_tag("security-identity", _tag("run-as", _texts(role_name=random.choice(GIVEN)))))
    return _tag("session", *parts)


def _entity(random: Random) -> str:
    bean = _bean(random)
    fields = [_tag("cmp-field", _texts(field_name=f"field{i}")) for i in range(random.randint(1, 8))]
    key = [_texts(primkey_field="field0")] if random.random() < 0.7 else []
    return _tag(
        "entity",
        _texts(ejb_name=bean, home=f"{bean}Home", remote=bean, ejb_class=f"org.example.{bean}"),
        _texts(persistence_type="Container", prim_key_class="java.lang.Long", reentrant="False"),
        *fields,
        *key,
    )


def _method(random: Random) -> str:
    parts = [_texts(ejb_name=_bean(random), method_intf=random.choice(["Home", "Remote"]))]
    parts.append(_texts(method_name=f"get{random.choice(GIVEN)}"))
    if random.random() < 0.4:
        parts.append(_tag("method-params", *(_texts(method_param="long") for _ in range(random.randint(0, 2)))))
    return _tag("method", *parts)


def _transaction(random: Random) -> str:
    methods = [_method(random) for _ in range(random.randint(1, 3))]
    return _tag("container-transaction", *methods, _texts(trans_attribute=random.choice(["Required", "Never"])))


def _role(random: Random) -> str:
    role = random.choice(GIVEN)
    return _tag("security-role", _texts(description=f"what {role} may do", role_name=role))


def _permission(random: Random) -> str:
    methods = [_method(random) for _ in range(random.randint(1, 4))]
    return _tag("method-permission", _texts(role_name=random.choice(GIVEN)), *methods)


# prefix -> what a query may ask for below it, and what it may filter by
_EJB_QUERIES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "assembly-descriptor/container-transaction": (
        ["method/ejb-name", "method/method-name", "trans-attribute", "trans-attribute"],
        ['[trans-attribute = "Never"]', '[method/method-name = "getAda"]', "[method/method-params]"],
    ),
    "assembly-descriptor/security-role": (
        ["role-name", "description"],
        ['[role-name = "Ada"]', '[contains(description, "Bela")]', "[description]"],
    ),
    "assembly-descriptor/method-permission": (
        ["role-name", "role-name", "method/ejb-name", "method/method-name", "method/method-params/method-param"],
        ['[role-name = "Cora"]', '[method/ejb-name = "Adler7"]', "[method/method-params]"],
    ),
    "enterprise-beans/message-driven": (
        ["ejb-name", "ejb-class", "ejb-ref/ejb-link", "ejb-ref/home", "message-driven-destination/destination-type"],
        ['[transaction-type = "Container"]', '[ejb-ref/ejb-link = "Dorn3"]', "[message-selector]"],
    ),
    "enterprise-beans/session": (
        ["ejb-name", "home", "remote", "ejb-ref/ejb-ref-name", "security-identity/run-as/role-name"],
        ['[session-type = "Stateless"]', "[ejb-ref]", '[ejb-name = "Ebert12"]'],
    ),
    "enterprise-beans/entity": (
        ["ejb-name", "home", "cmp-field/field-name", "primkey-field", "reentrant"],
        ["[primkey-field]", '[cmp-field/field-name = "field6"]', '[ejb-name = "Falk5"]'],
    ),
}


def ejb_queries(count: int, seed: int = 1) -> list[str]:
    random = Random(seed)
    shares = {path: share for path, (_, share) in CARDINALITIES.items()}
    return [_ejb_query(random, path) for path in _drawn(shares, count, random)]


def _ejb_query(random: Random, path: str) -> str:
    leaves, conditions = _EJB_QUERIES[path]
    condition = random.choice(conditions) if random.random() < SHARE_OF_FILTERS else ""
    leaf = random.choice(leaves)
    parent, _, name = path.rpartition("/")
    if random.random() < SHARE_OF_DESCENDANTS:
        last = leaf.rpartition("/")[2]
        return random.choice([f"//{name}{condition}/{leaf}", f"/ejb-jar/{path}{condition}//{last}"])
    return f"/ejb-jar/{parent}/{name}{condition}/{leaf}"


def _drawn(shares: Mapping[str, float], count: int, random: Random) -> list[str]:
    """So many of each as its share says, by largest remainder, in random order."""
    exact = {one: count * share / sum(shares.values()) for one, share in shares.items()}
    drawn = {one: int(number) for one, number in exact.items()}
    for one in sorted(exact, key=lambda one: drawn[one] - exact[one])[: count - sum(drawn.values())]:
        drawn[one] += 1
    every = [one for one, number in drawn.items() for _ in range(number)]
    random.shuffle(every)
    return every
