"""Count the lines of product code: `tools/count_lines.py [REVISION]`.

Product code is `crates/kernel/src`, `crates/python` and `python/twigcast` without `papers`. Blank lines, comments,
docstrings and Rust tests are not counted. With a revision of git its counts, papers included, stand beside those of the
working tree.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("crates/kernel/src", "crates/python", "python/twigcast")
PAPERS = "python/twigcast/papers"

_SKIPPED = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
# What may contain quotes, slashes or braces that are not code, longest first. A lifetime has no closing quote.
_RUST = re.compile(
    r"""(?P<comment>//[^\n]*|/\*)
    |(?P<text>b?c?r(?P<hashes>\#*)"(?:.|\n)*?"(?P=hashes)
        |[bc]?"(?:[^"\\]|\\(?:.|\n))*"
        |b?'(?:[^'\\\n]|\\[^\n][^'\n]*)')""",
    re.VERBOSE,
)
_TESTS = re.compile(
    r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([a-z]+\))?\s+)?mod\s+\w+\s*([{;])"
)


def count_python(source: str) -> int:
    """Return the number of lines that hold code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        # Also the strings that describe attributes, which are statements of their own.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def count_rust(source: str) -> int:
    """Return the number of lines that hold code."""
    code = _without_tests(_without_comments(source))
    return sum(1 for line in code.splitlines() if line.strip())


def _without_comments(source: str) -> str:
    """Remove comments, and replace each text by an x on every line that it has."""
    parts: list[str] = []
    at = 0
    while found := _RUST.search(source, at):
        parts.append(source[at : found.start()])
        at = found.end()
        if found["text"] is not None:
            parts.append("\n".join(["x"] * (found[0].count("\n") + 1)))
        elif found[0] == "/*":
            at = _end_of_comment(source, at)
    parts.append(source[at:])
    return "".join(parts)


def _end_of_comment(source: str, at: int) -> int:
    """Return where a block comment ends whose content begins at ``at``. Comments nest."""
    depth = 1
    while depth:
        found = re.compile(r"/\*|\*/").search(source, at)
        if found is None:
            return len(source)
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at


def _without_tests(code: str) -> str:
    """Remove the modules of tests."""
    while found := _TESTS.search(code):
        end = found.end()
        depth = 1 if found[1] == "{" else 0
        while depth and end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        code = code[: found.start()] + code[end:]
    return code


def count(files: Iterable[tuple[str, str]], *, with_papers: bool) -> Counter[str]:
    """Return the lines of code of (path, content) by folder, two levels deep below those of ``FOLDERS``."""
    counts: Counter[str] = Counter()
    for path, content in files:
        if path.startswith(PAPERS) and not with_papers:
            continue
        if path.endswith((".py", ".pyi")):
            lines = count_python(content)
        elif path.endswith(".rs") and not path.endswith("/tests.rs") and "/tests/" not in path:
            lines = count_rust(content)
        else:
            continue
        counts[_folder(path)] += lines
    return counts


def _folder(path: str) -> str:
    room = next(folder for folder in FOLDERS if path.startswith(f"{folder}/"))
    first, slash, _ = path.removeprefix(f"{room}/").partition("/")
    return f"{room}/{first}" if slash else room


def of_tree() -> Iterator[tuple[str, str]]:
    """Yield the files of the working tree that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *FOLDERS]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(errors="replace")


def of_revision(revision: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a revision."""
    command = ["git", "archive", "--format=tar", revision, *FOLDERS]
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member)
            if content is not None:
                yield member.name, content.read().decode(errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("revision", nargs="?", help="compare with this revision, such as f693179")
    revision = parser.parse_args().revision
    now = count(of_tree(), with_papers=False)
    if revision is None:
        for folder in sorted(now):
            print(f"{folder:<40}{now[folder]:>8,}")
        print(f"{'total':<40}{now.total():>8,}")
        return
    before = count(of_revision(revision), with_papers=True)
    print(f"{'folder':<40}{revision[:8]:>8}{'now':>8}{'change':>8}")
    for folder in sorted({*before, *now}):
        print(f"{folder:<40}{before[folder]:>8,}{now[folder]:>8,}{now[folder] - before[folder]:>+8,}")
    change = (now.total() - before.total()) / before.total()
    print(f"{'total':<40}{before.total():>8,}{now.total():>8,}{now.total() - before.total():>+8,}  {change:+.1%}")


if __name__ == "__main__":
    main()
