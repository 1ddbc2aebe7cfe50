"""``twigcast bench``: the papers' experiments, run again on this machine."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from twigcast.errors import OptionError
from twigcast.experiments.report import Report, Table, show

# experiment -> its line in --help; each is a module of twigcast.experiments with run(quick, say) -> Report
EXPERIMENTS: dict[str, str] = {
    "broker": "Transforms: PathSharing-F, -FW and -FWR, their optimisations, and shared plans (broker §6).",
    "joins": "Correlations: MMQJP's figures 8 to 16, and the default beside the paper's strategies.",
    "relational": "Stock quotes and a recursive vocabulary in a database, plan by plan.",
    "chunking": "eXtract (section 5): documents in chunks against documents whole, by libxml2 and by us.",
}

EPILOG = """\b
Examples:
  twigcast bench broker --quick
  twigcast bench joins --output results/
"""


@click.group(epilog=EPILOG)
def bench() -> None:
    """Run the experiments of the papers that Twigcast is made of, and write a page with tables and plots."""


def _experiment(name: str, text: str) -> None:
    @bench.command(name, help=text)
    @click.option("--quick", is_flag=True, help="Small sizes: a look at the shape of things, not a result.")
    @click.option(
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("experiments"),
        show_default=True,
        help="The folder for the page and its pictures.",
    )
    def command(quick: bool, output: Path) -> None:
        if find_spec("matplotlib") is None:
            raise OptionError("no-matplotlib", "plots need matplotlib", hint="pip install 'twigcast[bench]'")
        module = import_module(f"twigcast.experiments.{name}")
        report: Report = module.run(quick, lambda text: click.echo(text, err=True))
        page = report.write(output)
        for part in report.parts:
            if isinstance(part, Table):
                _print(part)
        click.echo(f"{page} has the tables and the plots")


def _print(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title, box=None, pad_edge=False)
    for column in table.columns:
        shown.add_column(column)
    for row in table.rows:
        shown.add_row(*map(show, row))
    Console().print(shown)
    if table.remark:
        click.echo(table.remark + "\n")


for _name, _text in EXPERIMENTS.items():
    _experiment(_name, _text)
