"""Compile filters in several processes, for ``Engine.add_many(…, jobs=N)``.

Each process compiles a share of the subscriptions with the engine's own compiler. It then asks which codes the engine's
kernel has for the steps of its patterns, and answers with what the kernel takes. Whatever is more than a pattern, and
what cannot be compiled, is left to the engine, so that results and errors are the same with any number of processes. So
is the share of a process that dies.

A process is a new interpreter that runs this module: not a fork of a program that may have threads, and not one that
imports the program's main module again.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import IO, Any, NamedTuple

from twigcast.engine.compiler import Compiler, is_transform_of
from twigcast.engine.register import Shape, encoded
from twigcast.errors import OptionError, TwigcastError
from twigcast.ir.pattern import Step
from twigcast.lang.shape import Shapes, Template
from twigcast.plan.encode import NotEncodable
from twigcast.subscription import Subscription

# A process takes about as long to start as it takes to compile so many filters.
LEAST_SHARE = 3_000
MAX_JOBS = 256
COMMAND = (sys.executable, "-m", "twigcast.engine.jobs")


class Filter(NamedTuple):
    """A compiled filter: its shape and its constants."""

    shape: Shape
    constants: Sequence[str | float]


def check_jobs(jobs: object) -> None:
    """Raise OptionError if this is no number of processes."""
    if not isinstance(jobs, int) or isinstance(jobs, bool) or not 1 <= jobs <= MAX_JOBS:
        raise OptionError("bad-jobs", f"jobs is a number of processes from 1 to {MAX_JOBS}, not {jobs!r}")


def compile_all(
    subscriptions: Sequence[Subscription], namespaces: Mapping[str, str], code: Callable[[Step], int], jobs: int
) -> list[Filter | None]:
    """Compile subscriptions in at most this many processes. None stands for each that the engine has to compile.

    ``code`` returns the kernel's code of a step, or raises NotEncodable.
    """
    jobs = min(jobs, len(subscriptions) // LEAST_SHARE)
    if jobs < 2:
        return [None] * len(subscriptions)
    bounds = [len(subscriptions) * at // jobs for at in range(jobs + 1)]
    shares = [subscriptions[start:end] for start, end in pairwise(bounds)]
    found: list[Filter | None] = []
    with ExitStack() as stack:
        workers = [stack.enter_context(_Worker()) for _ in shares]
        for worker, share in zip(workers, shares, strict=True):
            worker.send((dict(namespaces), share))
        for worker in workers:
            steps = worker.receive()
            worker.send(None if steps is None else [_code_or_none(step, code) for step in steps])
        for worker, share in zip(workers, shares, strict=True):
            shapes, filters = worker.receive() or ([], [None] * len(share))
            found += [None if one is None else Filter(shapes[one[0]], one[1]) for one in filters]
    return found


def _code_or_none(step: Step, code: Callable[[Step], int]) -> int | None:
    try:
        return code(step)
    except NotEncodable:
        return None


class _Worker:
    """A process that compiles. Where it fails, it answers None."""

    def __enter__(self) -> _Worker:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        self._process = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=quiet, env=environment)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for file in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                file.close()  # type: ignore[union-attr]
        self._process.wait()

    def send(self, message: object) -> None:
        """Send a message, unless the process has ended."""
        with suppress(OSError):
            _write(self._process.stdin, message)  # type: ignore[arg-type]

    def receive(self) -> Any:
        """Return the next answer."""
        try:
            return pickle.load(self._process.stdout)  # type: ignore[arg-type]
        except (EOFError, OSError, pickle.UnpicklingError):
            return None


def _write(file: IO[bytes], message: object) -> None:
    pickle.dump(message, file, pickle.HIGHEST_PROTOCOL)
    file.flush()


class _Numbers(dict[Step, int]):
    """Numbers steps in the order in which they are first asked for."""

    def __missing__(self, step: Step) -> int:
        number = self[step] = len(self)
        return number


def main() -> None:
    """Compile the share that comes by stdin, and answer on stdout."""
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing else may get between the answers
    namespaces, subscriptions = pickle.load(sys.stdin.buffer)
    compiler = Compiler(namespaces, Shapes())
    compiled = [_compiled(compiler, one) for one in subscriptions]
    templates = {id(one[0]): one[0] for one in compiled if one is not None}
    numbers = _Numbers()
    encodable = {name for name, one in templates.items() if _encoded(one, numbers.__getitem__) is not None}
    _write(answers, list(numbers))
    codes = pickle.load(sys.stdin.buffer)

    def code(step: Step) -> int:
        found: int | None = codes[numbers[step]]
        if found is None:
            raise NotEncodable
        return found

    places: dict[int, int | None] = {}
    shapes: list[Shape] = []
    for name, template in templates.items():
        shape = _encoded(template, code) if name in encodable else None
        places[name] = None if shape is None else len(shapes)
        if shape is not None:
            shapes.append(shape)
    filters = [
        None if one is None or places[id(one[0])] is None else (places[id(one[0])], list(one[0].constants(one[1])))
        for one in compiled
    ]
    _write(answers, (shapes, filters))


def _compiled(compiler: Compiler, s: Subscription) -> tuple[Template, Sequence[str]] | None:
    """Return a filter's template and literals; None for what the engine compiles itself, be it to raise an error."""
    try:
        if s.result != "match" or is_transform_of(s):
            return None
        template, literals = compiler.split(s)
    except (TwigcastError, RecursionError):
        return None
    return (template, literals) if template.plan.residual is None else None


def _encoded(template: Template, code: Callable[[Step], int]) -> Shape | None:
    try:
        return encoded(template.plan, code)
    except NotEncodable:
        return None


if __name__ == "__main__":
    main()
