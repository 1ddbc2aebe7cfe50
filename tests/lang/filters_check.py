"""Filters of the whole XPath grammar against libxml2, or Saxon where libxml2 is wrong, for any engines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from lang_documents import document
from lxml import etree

from saxon_xpath import is_wrong_in_libxml2, saxon_holds
from twigcast import Engine, Subscription, _kernel
from twigcast.lang import ast
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_text, to_xpath
from twigcast.limits import Limits

FUELS = (16, 0)
"""By search, and by sets alone."""


def engine_with(fuel: int) -> Engine:
    """Return an engine whose kernel searches at most ``fuel`` times the message's nodes before it evaluates in bulk."""
    # a random query may take many steps, and would fail instead of being answered
    engine = Engine(limits=Limits(max_query_steps=2**63 - 1))
    engine._adopt(_kernel.papers.engine("trie", 1 << 26, fuel), engine._ids, engine._history)
    return engine


def plain_tree(xml: bytes) -> etree._ElementTree:
    """With an empty DOCTYPE: libxml2 takes the text of its entities for text of the document, but finds a root element
    before a comment only if something comes before it."""
    whole = etree.tostring(etree.ElementTree(etree.fromstring(xml)), encoding="UTF-8")
    plain = re.sub(rb"<!DOCTYPE[^]]*\]>", b"", whole, count=1)
    return etree.ElementTree(etree.fromstring(b"<!DOCTYPE none>" + plain))


def check(exprs: list[ast.Expr], seed: int, makers: Sequence[Callable[[], Engine]], documents: int = 4) -> None:
    """Assert that all engines agree with libxml2, or Saxon where that is wrong, on random documents."""
    texts = [to_text(e) for e in exprs]
    oracles = []
    for e in exprs:
        xpath, prefixes = to_xpath(at_document(e))
        oracles.append(etree.XPath(f"boolean({xpath})", namespaces=prefixes or None))
    doubtful = [i for i, e in enumerate(exprs) if is_wrong_in_libxml2(e)]
    engines = [make() for make in makers]
    for engine in engines:
        engine.add_many(Subscription(i, text) for i, text in enumerate(texts))
    source = random.Random(seed)
    for _ in range(documents):
        xml = document(source)
        trees = etree.ElementTree(etree.fromstring(xml)), plain_tree(xml)
        expected = [{i for i, oracle in enumerate(oracles) if oracle(tree)} for tree in trees]
        judged = {i: saxon_holds(xml, exprs[i]) for i in doubtful}
        unknown = {i for i, holds in judged.items() if holds is None}
        expected = [(one - set(judged)) | {i for i, holds in judged.items() if holds} for one in expected]
        answers = [engine.match(xml) for engine in engines]
        for plan, found in enumerate(answers):
            wrong = set.intersection(*(one ^ set(found) for one in expected)) - unknown
            assert not wrong, f"{plan}\n{[texts[i] for i in sorted(wrong)]}\n{xml.decode()}"
            assert found == answers[0] == sorted(found), plan
