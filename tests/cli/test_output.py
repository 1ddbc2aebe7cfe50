"""What commands print of errors."""

from __future__ import annotations

import pytest

from twigcast.cli.output import Report
from twigcast.errors import OptionError
from twigcast.rows import error_of_row, error_row


def test_a_place_is_told_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    report.refused("a.xml", error_of_row(error_row("not-well-formed", "no end", 2, 5, 17)))
    # the message as a whole is at fault
    report.refused("b.xml", error_of_row(error_row("invalid", "not of the schema")))
    report.refused("c.xml", OptionError("unreadable", "no such file", hint="name another"))
    assert capsys.readouterr().err.splitlines() == [
        "a.xml:2:5: not-well-formed: no end",
        "b.xml: invalid: not of the schema",
        "c.xml: unreadable: no such file",
        "hint: name another",
    ]
    assert (report.errors, report.finish()) == (3, 2)


def test_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    assert report.finish() == 1
    report.matched = True
    assert report.finish() == 0
