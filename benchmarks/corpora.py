"""Documents and queries: YFilter's own, and generated ones. Everything is the same in every run."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path
from random import Random

from twigcast import Engine, Subscription
from twigcast.workload import DocumentGenerator, Dtd, QueryGenerator, QuerySettings, read_dtd, vocabulary

YFILTER = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "yfilter-nitf"


def present() -> bool:
    return YFILTER.is_dir()


@cache
def nitf_dtd() -> Dtd:
    return read_dtd((YFILTER / "sample" / "nitf-2-5.dtd").read_bytes())


@cache
def nitf_documents() -> list[bytes]:
    return [p.read_bytes() for p in sorted((YFILTER / "tests" / "xmldocs-500").glob("*.xml"))]


@cache
def nitf_queries() -> list[str]:
    packed = YFILTER / "tests" / "benchmark_simple_paths" / "queries-153928-d.txt.gz"
    return gzip.decompress(packed.read_bytes()).decode().split()


@cache
def generated_nitf(count: int) -> list[bytes]:
    return list(DocumentGenerator(nitf_dtd(), root="nitf", depth=7, max_repeats=3, seed=1).documents(count))


@cache
def generated_nitf_queries(count: int) -> list[str]:
    return list(QueryGenerator(nitf_dtd(), QuerySettings(depth=8, seed=1), root="nitf").queries(count))


@cache
def book_documents(count: int) -> list[bytes]:
    """Sections within sections, up to twenty levels; sentences of 4 to 20 words where the generator writes numbers."""
    generator = DocumentGenerator(vocabulary("book"), depth=20, max_repeats=1, repeats={"section": (0, 7)}, seed=1)
    chance = Random(1).random

    def sentence(_: re.Match[bytes]) -> bytes:
        words = (PROSE[int(chance() * len(PROSE))] for _ in range(4 + int(chance() * 17)))
        return b" ".join(words)

    return [re.sub(rb"(?<=>)\d+(?=<)", sentence, document) for document in generator.documents(count)]


@cache
def catalog_documents(count: int) -> list[bytes]:
    """Values are long numbers, in the place of a real message's text."""
    generator = DocumentGenerator(
        vocabulary("catalog"), depth=8, max_repeats=3, max_value=10**24, attributes=1.0, seed=1
    )
    return list(generator.documents(count))


@cache
def queries(name: str, count: int) -> list[str]:
    return list(QueryGenerator(vocabulary(name), QuerySettings(depth=9, seed=1)).queries(count))


PROSE = (
    b"the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which "
    b"one you were all her she there would their we him been has when who will no more if out so up said what its "
    b"about than into them can only other time new some could these two may first then do any like my now over such "
    b"our man me even most made after also did many off before must well back through years where much your way down "
    b"should because long each just state those people too mr how little good world make very year still see work "
    b"life being"
).split()
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def entity_heavy(count: int) -> list[bytes]:
    """Text in which every other word is a reference, to a character or a predefined entity."""
    random = Random(1)
    references = ("&amp;", "&lt;", "&gt;", "&quot;", "&#233;", "&#x20AC;")

    def text() -> str:
        return " ".join(random.choice(WORDS) + random.choice(references) for _ in range(random.randint(3, 15)))

    return [_wrap("".join(f"<p>{text()}</p>" for _ in range(30))) for _ in range(count)]


def internal_entities(count: int) -> list[bytes]:
    """The same with entities that the message declares itself."""
    random = Random(1)
    names = [f"e{i}" for i in range(8)]
    subset = "".join(f'<!ENTITY {n} "{random.choice(WORDS)} {random.choice(WORDS)}">' for n in names)

    def text() -> str:
        return " ".join(random.choice(WORDS) + f"&{random.choice(names)};" for _ in range(random.randint(3, 15)))

    body = [_wrap("".join(f"<p>{text()}</p>" for _ in range(30))) for _ in range(count)]
    return [f"<!DOCTYPE r [{subset}]>".encode() + b for b in body]


def attribute_heavy(count: int) -> list[bytes]:
    random = Random(1)

    def tag() -> str:
        return "<e" + "".join(f' {random.choice(WORDS)}{i}="{random.getrandbits(40)}"' for i in range(10)) + "/>"

    return [_wrap("".join(tag() for _ in range(30))) for _ in range(count)]


def namespaced(count: int) -> list[bytes]:
    """After ISO 20022's payment messages: one default namespace, a header in another, text in every leaf."""
    random = Random(1)

    def entry() -> str:
        return (
            f'<CdtTrfTxInf><PmtId><EndToEndId>E{random.getrandbits(30)}</EndToEndId></PmtId><IntrBkSttlmAmt Ccy="EUR">'
            f"{random.randint(1, 10**6)}.00</IntrBkSttlmAmt><Dbtr><Nm>{random.choice(WORDS)}</Nm></Dbtr><DbtrAcct><Id>"
            f"<IBAN>DE{random.getrandbits(60)}</IBAN></Id></DbtrAcct></CdtTrfTxInf>"
        )

    return [
        (
            '<?xml version="1.0" encoding="UTF-8"?><x:Envelope xmlns:x="urn:swift:xsd:envelope">'
            '<h:AppHdr xmlns:h="urn:iso:std:iso:20022:tech:xsd:head.001.001.02"><h:BizMsgIdr>1</h:BizMsgIdr></h:AppHdr>'
            '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pacs.008.001.08">'
            f"<FIToFICstmrCdtTrf>{''.join(entry() for _ in range(8))}"
            "</FIToFICstmrCdtTrf></Document></x:Envelope>"
        ).encode()
        for _ in range(count)
    ]


def _wrap(body: str) -> bytes:
    return f"<r>{body}</r>".encode()


def engine(paths: list[str], *, mode: str = "trie", copies: int = 1, predicates: str = "shared") -> Engine:
    if (mode, predicates) == ("trie", "shared"):
        e = Engine()
    else:
        from twigcast import papers  # earlier revisions, which `compare.py` measures, have no such module

        e = papers.Engine(mode=mode, predicates=predicates)
    e.add_many(Subscription(i * copies + k, q) for i, q in enumerate(paths) for k in range(copies))
    return e
