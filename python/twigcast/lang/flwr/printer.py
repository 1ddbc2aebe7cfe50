"""Transform -> canonical XQuery text; it parses to an equal transform, and any XQuery 3.1 processor runs it."""

from __future__ import annotations

from collections.abc import Iterator

from twigcast.ir.transform import (
    Comment,
    Constant,
    Content,
    Copy,
    Element,
    Function,
    Groups,
    Hole,
    Instruction,
    Item,
    Path,
    Source,
    Transform,
)
from twigcast.lang import ast
from twigcast.lang.names import XML_NAMESPACE
from twigcast.lang.printer import Printer
from twigcast.lang.xpath import parse


def to_xquery(transform: Transform, *, sources: bool = True, first: bool = False) -> str:
    """``sources`` False: the binding path starts at the context item. ``first``: write ``(path)[1]`` where the first
    node is meant, which XQuery insists on and we take for granted (SEMANTICS 7); such text is for other processors."""
    return _Transform(transform, sources, first).text()


class _Paths(Printer):
    """XPath in XQuery's letter: ``Q{uri}name``, and strings with quotes doubled and ``&`` escaped."""

    def __init__(self, default: str, variable: str | None) -> None:
        super().__init__(None)
        self.default = default
        self.variable = variable
        self.nested = 0

    def expr(self, expr: ast.Expr, least: int) -> str:
        if isinstance(expr, ast.String):
            return literal(expr.value)
        if isinstance(expr, ast.LocationPath) and not expr.absolute and self.variable and not self.nested:
            # "//" may follow the variable at once.
            steps = self.steps(expr.steps, True)
            only_self = expr.steps[0].axis == "self" and not steps.startswith(("/", "@"))
            return (
                f"${self.variable}{steps.removeprefix('self::node()').removeprefix('.') if only_self else '/' + steps}"
            )
        return super().expr(expr, least)

    def predicates(self, predicates: tuple[ast.Expr, ...]) -> str:
        self.nested += 1
        text = super().predicates(predicates)
        self.nested -= 1
        return text

    def step(self, step: ast.AxisStep) -> str:
        default = self.default
        if step.axis in ("attribute", "namespace"):
            self.default = ""
        test = step.test
        axis = {"child": "", "attribute": "@"}.get(step.axis, f"{step.axis}::")
        text = axis + self.name(test.ns, test.local) if isinstance(test, ast.NameTest) else None
        self.default = default
        return super().step(step) if text is None else text + self.predicates(step.predicates)

    def name(self, ns: str | None, local: str | None) -> str:
        if ns is None:
            return "*"
        return local if ns == self.default and local else f"Q{{{ns}}}{local or '*'}"


class _Transform:
    def __init__(self, transform: Transform, sources: bool, first: bool) -> None:
        self.transform = transform
        self.sources = sources
        self.first = first
        self.prolog: dict[str, str] = {}

    def text(self) -> str:
        self.prolog = dict(prolog(self.transform))
        lines = [
            f"declare namespace {prefix} = {literal(uri)};"
            if prefix
            else f"declare default element namespace {literal(uri)};"
            for prefix, uri in sorted(self.prolog.items())
        ]
        return "\n".join((*lines, self.element(self.transform.outer, self.prolog.get("", ""))))

    # -- clauses

    def flwr(self, default: str) -> str:
        t = self.transform
        lines = [f"for ${t.variable} in {self.binding(default)}"]
        if t.where is not None:
            lines.append("where " + _Paths(default, t.variable).expr(parse(t.where.text), 0))
        keys = [
            self.item(key.value, default, self.first)
            + " descending" * key.descending
            + (" empty greatest" if key.empty_greatest else " empty least" * self.first)
            for key in t.order
        ]
        if keys:
            lines.append("order by " + ", ".join(keys))
        result = [self.part(one, default) for one in t.result]
        lines.append("return " + (result[0] if len(result) == 1 else f"({', '.join(result)})"))
        return "{ " + "\n".join(lines) + " }"

    def binding(self, default: str) -> str:
        source: Source = self.transform.source
        text = _Paths(default, None).expr(parse(self.transform.binding.text), 0)
        if not source.kind or not self.sources:
            return text
        return f"{source.kind}({literal(source.name)}){text}"

    # -- items

    def part(self, part: Item | Element, default: str) -> str:
        return self.element(part, default) if isinstance(part, Element) else self.item(part, default)

    def item(self, item: Item, default: str, first: bool = False) -> str:
        match item:
            case Constant(value):
                return literal(value)
            case Copy(path):
                text = self.path(path, default)
                return f"({text})[1]" if first else text
            case Function(name, arguments):
                one = self.first and name in ("string", "concat", "number")
                return f"{name}({', '.join(self.item(argument, default, one) for argument in arguments)})"

    def path(self, path: Path, default: str) -> str:
        variable = self.transform.variable
        return f"${variable}" if path.is_self else _Paths(default, variable).expr(parse(path.text), 0)

    # -- the template

    def element(self, element: Element, default: str) -> str:
        default = dict(element.declared).get("", default)
        text = "<" + str(element.name)
        for prefix, uri in element.declared:
            text += f' xmlns{":" if prefix else ""}{prefix}="{value_text(uri)}"'
        for attribute in element.attributes:
            parts = [value_text(one) if isinstance(one, str) else self.hole(one, default) for one in attribute.parts]
            text += f' {attribute.name}="{"".join(parts)}"'
        if not element.content:
            return text + "/>"
        inner = "".join(self.content(one, default) for one in element.content)
        return f"{text}>{inner}</{element.name}>"

    def hole(self, hole: Hole, default: str) -> str:
        return "{ " + ", ".join(self.part(one, default) for one in hole.items) + " }"

    def content(self, part: Content, default: str) -> str:
        match part:
            case str():
                return content_text(part)
            case Hole():
                return self.hole(part, default)
            case Element():
                return self.element(part, default)
            case Comment(text):
                return f"<!--{text}-->"
            case Instruction(target, text):
                return f"<?{target} {text}?>" if text else f"<?{target}?>"
            case Groups():
                return self.flwr(default)


def prolog(transform: Transform) -> Iterator[tuple[str, str]]:
    """The namespaces of constant names that no tag declares: the prolog did, or the subscription."""
    stack: list[tuple[object, dict[str, str]]] = [(transform.outer, {})]
    while stack:
        part, scope = stack.pop()
        match part:
            case Element(name, declared, attributes, content):
                inner = {**scope, **dict(declared)}
                for one in (name, *(attribute.name for attribute in attributes if attribute.name.prefix)):
                    if one.prefix not in inner and one.ns and one.ns != XML_NAMESPACE:
                        yield one.prefix, one.ns
                stack += [(one, inner) for one in content]
            case Hole(items):
                stack += [(one, scope) for one in items]
            case Groups():
                stack += [(one, scope) for one in transform.result]


def literal(value: str) -> str:
    return '"' + value.replace("&", "&amp;").replace('"', '""') + '"'


def value_text(value: str) -> str:
    """Constant text of an attribute value. Braces as references: Saxon 13 wants doubled ones to come in pairs there."""
    text = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return "".join(f"&#{ord(char)};" if char in "\t\n\r{}" else char for char in text)


def content_text(text: str) -> str:
    """Constant text of an element; white space alone would be stripped, so it is written as references."""
    if not text.strip(" \t\r\n"):
        return "".join(f"&#{ord(char)};" for char in text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("{", "{{").replace("}", "}}")
    return text.replace("\r", "&#13;")
