"""What the documents show must run."""

from __future__ import annotations

import re
from pathlib import Path

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


@pytest.mark.parametrize("page", ["README.md", "docs/command-line.md", "docs/workloads.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
