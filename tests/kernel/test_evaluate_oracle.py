"""The kernel's evaluator agrees with libxml2 on random expressions, and with Saxon where libxml2 is wrong."""

from __future__ import annotations

import re
from random import Random

import pytest
from evaluate_random import PREFIXES, Expressions, random_document
from evaluate_support import Libxml2, answers, parsed

from saxon_xpath import is_wrong_in_libxml2, saxon_holds

PER_DOCUMENT = 20

FAR = ("following::", "preceding::", "following-sibling::", "preceding-sibling::", "id(", "lang(")
POSITION = re.compile(r"position\(\)|last\(\)|\[-?\d")
NESTED = re.compile(r"\[[^\]]*\[")


def check(seeds: range, depth: int = 3, *, far: bool = False) -> int:
    """Compare the answers on a document for each seed; return how many pairs were compared.

    With ``far`` each expression has an axis or function that leads far away, a position, and predicates in predicates.
    """
    count = 0
    for seed in seeds:
        random = Random(seed)
        xml = random_document(random)
        make = Expressions(random)
        texts: list[str] = []
        while len(texts) < PER_DOCUMENT:
            text = make.any(random.randint(1, depth))
            if not far or (any(one in text for one in FAR) and POSITION.search(text) and NESTED.search(text)):
                texts.append(text)
        exprs = [parsed(text, PREFIXES) for text in texts]
        for i, expr in enumerate(exprs):
            if is_wrong_in_libxml2(expr):
                exprs[i] = parsed(f"boolean({texts[i]})", PREFIXES)
        libxml2 = Libxml2(xml)
        for text, expr, found in zip(texts, exprs, answers(xml, exprs), strict=True):
            expected: object
            if not is_wrong_in_libxml2(expr):
                expected = libxml2.answer(expr)
            elif far:
                expected = saxon_holds(xml, expr)
            else:
                continue
            if expected is not None:
                count += 1
                assert found == expected, f"seed {seed}\n{text}\n{xml.decode()}"
    return count


def test_hundreds_of_pairs_agree_with_libxml2() -> None:
    check(range(40))


def test_hundreds_of_expressions_that_lead_far_agree_with_libxml2_or_saxon() -> None:
    check(range(20), depth=4, far=True)


@pytest.mark.slow
def test_hundred_thousand_pairs_agree_with_libxml2() -> None:
    assert check(range(1000, 6500), depth=4) >= 100_000


@pytest.mark.slow
def test_ten_thousand_expressions_that_lead_far_agree_with_libxml2_or_saxon() -> None:
    assert check(range(10_000, 10_600), depth=4, far=True) >= 10_000
