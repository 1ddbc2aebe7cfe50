"""What counts as a line of code."""

from __future__ import annotations

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "count_lines.py"))

PYTHON = '''"""A module.

Of several lines.
"""

# a comment
X = 1  # with a comment
"""What X is."""
TEXT = """
not a docstring
"""


def f(
    a: int,
) -> str:
    """Return it."""
    return "# not a comment"
'''

RUST = r"""//! A crate.
/* a block /* within */
another */
use std::fmt; // with a comment

/// Documented.
pub fn f<'a>(x: &'a str) -> char {
    let url = "http://example.org"; /* after */
    let raw = r#"
// not a comment
"#;
    if x == "\"" { '"' } else { '\'' }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn one() { assert_eq!(f("}"), '}'); }
}
"""


def test_python() -> None:
    assert TOOL["count_python"](PYTHON) == 8


def test_rust() -> None:
    assert TOOL["count_rust"](RUST) == 8


def test_papers_are_no_product_code() -> None:
    files = [("python/twigcast/papers/a.py", "x = 1"), ("python/twigcast/lang/b.py", "x = 1\ny = 1")]
    assert TOOL["count"](files, with_papers=False) == {"python/twigcast/lang": 2}
    assert TOOL["count"](files, with_papers=True).total() == 3
