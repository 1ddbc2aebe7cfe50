"""``twigcast bench``: the papers' experiments, run again on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

import click

from twigcast.errors import OptionError
from twigcast.papers.experiments.check import checked, printed_report
from twigcast.papers.experiments.claims import verdict
from twigcast.papers.experiments.report import Report, Table, reasons, show
from twigcast.papers.explanation import OPTIMIZE, PlanExplanation
from twigcast.papers.plans import SHARING
from twigcast.schema import schema_of

# Experiment -> its line in --help. Each is a module of twigcast.papers.experiments with run(quick, say) -> Report.
EXPERIMENTS: dict[str, str] = {
    "broker": "Transforms: PathSharing-F, -FW and -FWR, their optimisations, and shared plans (broker §6).",
    "joins": "Correlations: MMQJP's figures 8 to 16, and the default beside the paper's strategies.",
    "relational": "Stock quotes and a recursive vocabulary in a database, plan by plan.",
    "chunking": "eXtract (section 5): documents in chunks against documents whole, by libxml2 and by us.",
}

PAGES = Path("docs/experiments")

EPILOG = """\b
Examples:
  twigcast bench broker --quick
  twigcast bench joins --output results/
  twigcast bench all --output docs/experiments
  twigcast bench broker --check                  compare docs/experiments/broker.md with a new run
"""


@click.group(epilog=EPILOG)
def bench() -> None:
    """Run the experiments of the papers that Twigcast is made of, and write a page with tables and plots."""


_quick = click.option("--quick", is_flag=True, help="Small sizes: a look at the shape of things, not a result.")
_output = click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("experiments"),
    show_default=True,
    help="The folder for the page and its pictures.",
)
_check = click.option(
    "--check",
    is_flag=False,
    flag_value=str(PAGES),
    metavar="[PAGE]",
    help=f"Compare a page with a new run of the same sizes, instead of writing one: a file or a folder of pages."
    f"  [without a value: {PAGES}]",
)


class Remaining:
    """Estimates the time that is left: as long per share of the work as the work so far has taken.

    Each page counts as an equal share of the work until it is done.
    """

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._page = 0
        self._began = monotonic()

    def next_page(self) -> None:
        """Say that a page is done."""
        self._page += 1

    def minutes(self, share: float) -> float:
        """Return the minutes that are left when ``share`` of the current page is done."""
        done = (self._page + share) / self._pages
        return (monotonic() - self._began) * max(1 - done, 0.0) / done / 60 if done else 0.0


def _report(name: str, quick: bool, remaining: Remaining) -> Report:
    """Run one experiment."""

    def say(text: str, share: float) -> None:
        left = remaining.minutes(share)
        click.echo(f"{name} {share:4.0%}, about {left:.0f} min left: {text}", err=True)

    report: Report = import_module(f"twigcast.papers.experiments.{name}").run(quick, say)
    remaining.next_page()
    return report


def _run(name: str, quick: bool, output: Path, remaining: Remaining) -> None:
    """Run one experiment, write its page and print its tables."""
    report = _report(name, quick, remaining)
    page = report.write(output)
    for table in report.tables():
        _print(table)
    click.echo(f"{page} has the tables and the plots, {page.with_suffix('.json')} the numbers")


def _checks(name: str, page: Path, remaining: Remaining) -> bool:
    """Run one experiment again, print what differs from its page, and return whether nothing does."""
    page = page / f"{name}.md" if page.is_dir() else page
    printed = printed_report(page)
    if printed.name != name:
        raise OptionError("other-page", f"{page} is a page of {printed.name}, not of {name}")
    found = checked(page, _report(name, printed.quick, remaining))
    click.echo("\n".join(f"{name}: {line}" for line in found.lines()))
    return not found.differences


def _need_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise OptionError("no-matplotlib", "plots need matplotlib", hint="pip install 'twigcast[bench]'")


def _perform(names: Sequence[str], quick: bool, output: Path, check: str | None) -> None:
    """Write the pages of some experiments, or check them."""
    remaining = Remaining(len(names))
    if check is not None:
        fine = [_checks(name, Path(check), remaining) for name in names]
        sys.exit(0 if all(fine) else 1)
    _need_matplotlib()
    for name in names:
        _run(name, quick, output, remaining)


def _experiment(name: str, text: str) -> None:
    @bench.command(name, help=text)
    @_quick
    @_output
    @_check
    def command(quick: bool, output: Path, check: str | None) -> None:
        _perform([name], quick, output, check)


@bench.command("all")
@_quick
@_output
@_check
def run_all(quick: bool, output: Path, check: str | None) -> None:
    """Run all experiments, one after the other, and write or check all pages.

    Nothing else should run on the machine meanwhile. It takes about half an hour.
    """
    _perform(list(EXPERIMENTS), quick, output, check)


@bench.command("plan")
@click.argument("query")
@click.option("--sharing", type=click.Choice(SHARING), default="FWR", show_default=True, help="How much plans share.")
@click.option("--optimize", type=click.Choice(list(OPTIMIZE)), help="What a plan may rely on.  [default: all there is]")
@click.option("--schema", metavar="FILE", help="The messages' schema: a DTD (.dtd) or an XML Schema.")
@click.option(
    "--format",
    type=click.Choice(["text", "json", "dot", "svg"]),
    default="text",
    show_default=True,
    help="Output; dot and svg are pictures.",
)
def show_plan(query: str, sharing: str, optimize: str | None, schema: str | None, format: str) -> None:
    """Show the plan that the broker paper would make of QUERY, a transform."""
    found = PlanExplanation(query, sharing=sharing, optimize=optimize, schema=schema_of(schema))
    if format == "json":
        click.echo(json.dumps(found.as_dict(), ensure_ascii=False))
    else:
        click.echo({"text": found.__str__, "dot": found.dot, "svg": found.svg}[format]())


def _print(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title, box=None, pad_edge=False)
    for column in table.columns:
        shown.add_column(column)
    for row in table.rows:
        shown.add_row(*map(show, row))
    Console().print(shown)
    for claim in table.claims:
        click.echo(f"  {claim.outcome.value}: {claim.text}: {claim.shown}")
    if table.claims:
        click.echo("\n".join([f"Verdict: {verdict(table.claims)}.", *reasons(table.claims), ""]))


for _name, _text in EXPERIMENTS.items():
    _experiment(_name, _text)
