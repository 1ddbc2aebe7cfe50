"""How transforms are evaluated: which of the broker paper's techniques are used. The answers are the same."""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.errors import OptionError
from twigcast.limits import ON_INVALID
from twigcast.papers.plans import SHARING, Planner
from twigcast.schema import Schema

OPTIMIZE = ("none", "query", "schema")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """``sharing`` is how much the path engine matches for all (PathSharing-F, -FW, -FWR), ``optimize`` what plans are
    simplified by (broker §4), ``share_plans`` whether operators are shared (§5). ``schema`` is that of the messages;
    ``on_invalid`` says what becomes of one that is not valid: it is answered as if there were no schema, or rejected;
    or whoever publishes is trusted, and nobody looks (SEMANTICS 17)."""

    sharing: str = "FWR"
    optimize: str = "schema"
    share_plans: bool = True
    schema: Schema | None = None
    on_invalid: str = "fallback"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("sharing", self.sharing, SHARING),
            ("optimize", self.optimize, OPTIMIZE),
            ("share_plans", self.share_plans, (True, False)),
            ("on_invalid", self.on_invalid, ON_INVALID),
        ):
            if value not in known:
                hint = f"{name} is one of {', '.join(map(str, known))}"
                raise OptionError(f"unknown-{name.replace('_', '-')}", f"there is no {name} {value!r}", hint=hint)

    @property
    def own(self) -> bool:
        """Whether the kernel's own engine does it. It shares by relative path, which takes no claims, and so no schema,
        to be right; what -FWR, optimised and shared, gains is all in it."""
        return self.sharing == "FWR" and self.optimize == "schema" and self.share_plans

    @property
    def relies_on_schema(self) -> bool:
        return self.schema is not None and self.optimize == "schema" and not self.own

    def planner(self) -> Planner:
        return Planner(self.sharing, "query+schema" if self.optimize == "schema" else self.optimize, self.schema)
