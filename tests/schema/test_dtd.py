from __future__ import annotations

import math
from pathlib import Path

import pytest

from twigcast.errors import OptionError
from twigcast.workload import VOCABULARIES, read_dtd, vocabulary


def test_elements_content_and_attributes() -> None:
    dtd = read_dtd(b"<!ELEMENT a (b, (c | d)+, e?)><!ELEMENT b (#PCDATA)><!ELEMENT c EMPTY><!ATTLIST c x (u|v) 'u'>")
    assert list(dtd.elements) == ["a", "b", "c"]
    assert dtd.root == "a"
    assert dtd.elements["a"].children == ("b", "c", "d", "e")
    assert dtd.elements["b"].has_text
    assert dtd.elements["c"].attributes[0].values == ("u", "v")


def test_the_doctype_of_the_use_cases_is_accepted() -> None:
    assert read_dtd(b"<!DOCTYPE t [ <!ELEMENT t (p*)> <!ELEMENT p (p*)> ]>\n").root == "t"


def test_doctype_inside_a_comment_is_not_a_wrapper() -> None:
    # With a careless pattern this also took exponential time: one comment more doubled it.
    text = b"<!-- as in <!DOCTYPE x [...]> -->" * 60 + b"<!ELEMENT a EMPTY>"
    assert list(read_dtd(text).elements) == ["a"]


def test_prefixed_names_keep_their_prefix_in_content_models() -> None:
    dtd = read_dtd(b"<!ELEMENT x:a (x:b)><!ELEMENT x:b EMPTY>")
    assert dtd.elements["x:a"].children == ("x:b",)


def test_any_contains_everything() -> None:
    assert read_dtd(b"<!ELEMENT a ANY><!ELEMENT b EMPTY>").elements["a"].children == ("a", "b")


def test_heights_find_the_shallowest_valid_tree() -> None:
    dtd = read_dtd(b"<!ELEMENT a (a | b)><!ELEMENT b (c)><!ELEMENT c EMPTY><!ELEMENT never (never)>")
    assert dtd.heights == {"a": 3, "b": 2, "c": 1, "never": math.inf}


def test_a_long_content_model_does_not_recurse() -> None:
    names = [f"e{i}" for i in range(5_000)]
    dtd = read_dtd(f"<!ELEMENT a ({' | '.join(names)})*>".encode())
    assert dtd.elements["a"].children == tuple(names)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_built_in_vocabularies_are_complete(name: str) -> None:
    dtd = vocabulary(name)
    assert all(child in dtd.elements for e in dtd.elements.values() for child in e.children)
    assert max(dtd.heights.values()) < 8


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file"):
        read_dtd(tmp_path / "none.dtd")
    with pytest.raises(OptionError) as caught:
        read_dtd(b"<!ELEMENT a (b>")
    assert caught.value.code == "dtd-malformed"
    with pytest.raises(OptionError, match="declares no element"):
        read_dtd(b"<!-- nothing -->")
    with pytest.raises(OptionError, match="no element 'z'"):
        read_dtd(b"<!ELEMENT a EMPTY>").check_root("z")
    with pytest.raises(OptionError, match="no vocabulary"):
        vocabulary("cookbook")
