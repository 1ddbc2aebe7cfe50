"""What the documents show must run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_readme_example(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 10
    exec(code, {})
    assert capsys.readouterr().out == "m1 is wanted by links\n"


def test_the_workload_example() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "workloads.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert next(iter(names["documents"])).startswith(b"<book")  # type: ignore[call-overload]
    assert next(iter(names["queries"])).startswith("/")  # type: ignore[call-overload]


def test_the_store_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "store.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["engine"].match(b"<order><total>2000</total><link href='x'/></order>") == ["big", "links"]
    assert names["version"] == 4 and len(names["lines"]) == 2


def test_the_configuration_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    from twigcast.config import parse

    text = (ROOT / "docs" / "configuration.md").read_text()
    environment = {"DB_PASSWORD": "x", "WEBHOOK_SECRET": "whsec_" + "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}
    examples = [parse(code, environment=environment) for code in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)]
    assert [list(one.streams) for one in examples] == [["orders"], ["orders"]]


def test_the_configuration_page_has_every_key() -> None:
    from twigcast.config import errors, models

    text = (ROOT / "docs" / "configuration.md").read_text()
    tables = [models.Pipeline, models.Route, *errors.members("streams").values(), *errors.members("sinks").values()]
    for table in tables:
        for name in table.model_fields:
            assert re.search(rf"\b{name}\b", text), f"{table.__name__}.{name}"


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/command-line.md",
        "docs/store.md",
        "docs/configuration.md",
        "docs/workloads.md",
        "CONTRIBUTING.md",
    ],
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
