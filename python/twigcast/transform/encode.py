"""Transforms as the kernel takes them: a program for what is bound and returned, and a template in pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from twigcast.ir.pattern import TRUE, And, Exists, Or, Step, Twig
from twigcast.ir.transform import (
    Attribute,
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
    OrderKey,
    Path,
    Transform,
    items_of,
)
from twigcast.lang import ast
from twigcast.lang.names import XML_NAMESPACE
from twigcast.lang.program import Program, encode_groups
from twigcast.lang.xpath import parse
from twigcast.plan.encode import NotEncodable, StepCodes, Symbols, encode
from twigcast.plan.slots import slotted

Piece: TypeAlias = tuple[Any, ...]
Scope: TypeAlias = Mapping[str, str]
_FUNCTIONS = {"count": "count", "sum": "sum", "min": "min", "max": "max", "avg": "avg"}


@dataclass(frozen=True, slots=True)
class Encoded:
    """A transform in the encoding of the kernel: the arguments of ``_kernel.Engine.add_transform``."""

    program: list[int]
    constants: list[str | float]
    making: bytes
    query: Program | None = None
    """What is bound and returned, where no program of patterns says it."""

    def with_constants(self, constants: Sequence[str | float]) -> Encoded:
        """Return the transform of the same shape with other constants."""
        return replace(self, constants=list(constants))


def compiled(transform: Transform, codes: StepCodes) -> Encoded:
    """Return the encoding of a transform. Raises QueryError for one that is nested too deeply."""
    try:
        return encoded(transform, codes.__getitem__)
    except NotEncodable:
        return _residual(transform, codes.symbols)


def condition(transform: Transform) -> And:
    """Return a predicate with all of a transform that has constants."""
    where = TRUE if transform.where is None or transform.where.predicate is None else transform.where.predicate
    twigs = [transform.binding.twig, *(path.twig for path in transform.return_paths)]
    return And((where, Or(tuple(Exists(twig) for twig in twigs if twig is not None))))


def _residual(transform: Transform, symbols: Symbols) -> Encoded:
    """Return the encoding of a transform that is no pattern: its paths and its condition as one query."""
    paths = _paths(transform)
    binding = parse(transform.binding.text)
    if transform.where is not None:
        condition = parse(transform.where.text)
        binding = ast.FilterPath(binding, (ast.Call("boolean", (condition,), condition.span),), (), binding.span)
    returns = tuple(parse(path.text) for path in paths)
    return Encoded([], [], making(transform, paths), encode_groups(binding, returns, symbols))


def _paths(transform: Transform) -> list[Path]:
    return [*([ITSELF] if copies_bound_node(transform) else ()), *transform.return_paths]


def encoded(transform: Transform, code: Callable[[Step], int]) -> Encoded:
    """Return the encoding of a transform that is all patterns. Raises NotEncodable where no tree pattern decides."""
    paths = _paths(transform)
    twigs = [transform.binding.twig, *(path.twig for path in paths)]
    where = transform.where
    if not transform.is_pattern or any(twig is None for twig in twigs) or (where and where.predicate is None):
        raise NotEncodable
    conditions = () if where is None or where.predicate is None else (where.predicate,)
    binding, *returns = [Exists(twig) for twig in twigs if twig is not None]
    program, constants = slotted(And((binding, And(conditions), Or(tuple(returns)))))
    return Encoded(encode(program, code), constants, making(transform, paths))


def making(transform: Transform, paths: Sequence[Path]) -> bytes:
    """Return the code of what is made of groups whose lists are those of ``paths``.

    That is sort keys, and the template before, in and after the groups (``crates/kernel/src/transform/code.rs``).
    """
    numbers = {path.text: number for number, path in enumerate(paths)}

    def number_of(path: Path) -> int:
        return numbers[path.text]

    writer = _Writer(number_of, transform.result)
    writer.element(transform.outer, {}, "", nested=False)
    at = writer.pieces.index(_GROUPS)
    order = [_key(key, number_of) for key in transform.order]
    return _packed((order, _markup(writer.pieces[:at]), writer.groups, _markup(writer.pieces[at + 1 :])))


def making_of_one(template: Element, number_of: Callable[[Path], int]) -> bytes:
    """Return the code of a template that has no place for groups, and is filled once."""
    writer = _Writer(number_of)
    writer.element(template, {}, "", nested=False)
    return _packed(([], b"", writer.pieces, b""))


_KINDS = ("markup", "copy", "attributes", "item", "sequence", "quoted")
_VALUES = ("constant", "joined", "first", "count", "sum", "min", "max", "avg", "concat", "spaced")
_CODES = {word: bytes([code]) for words in (_KINDS, _VALUES) for code, word in enumerate(words)}


def _packed(value: Any) -> bytes:
    """Return the code of a tuple of fields, a list, bytes, a number, a flag, or the kind of a piece or value."""
    match value:
        case bool():
            return bytes([value])
        case int():
            return value.to_bytes(4, "little")
        case bytes():
            return len(value).to_bytes(4, "little") + value
        case str():
            return _CODES[value]
        case list():
            return len(value).to_bytes(4, "little") + b"".join(map(_packed, value))
    return b"".join(map(_packed, value))


ITSELF = Path(".", "", Twig())
_GROUPS: Piece = ("groups",)


def copies_bound_node(transform: Transform) -> bool:
    keys = tuple(key.value for key in transform.order)
    return any(isinstance(item, Copy) and item.path.is_self for item in items_of((*transform.result, *keys)))


def _markup(pieces: Sequence[Piece]) -> bytes:
    """Outside of the groups there is nothing that depends on the message."""
    parts = []
    for kind, *arguments in pieces:
        if kind == "markup":
            parts.append(arguments[0])
        elif kind in ("item", "quoted"):
            text = _constant(arguments[0])
            parts.append((escaped(text) if kind == "item" else quoted(text)).encode())
    return b"".join(parts)


def _constant(expression: Piece) -> str:
    kind, argument = expression
    if kind == "constant":
        return str(argument, "utf-8")
    return (" " if kind == "spaced" else "").join(map(_constant, argument))


def _key(key: OrderKey, number_of: Callable[[Path], int]) -> Piece:
    return (_value(key.value, number_of), key.numeric, key.descending, key.empty_greatest)


def _value(item: Item, number_of: Callable[[Path], int]) -> Piece:
    """The value of an item where one is wanted: of the first node."""
    match item:
        case Constant(value):
            return ("constant", value.encode())
        case Copy(path):
            return ("first", number_of(path))
        case Function("concat" | "string" | "number", arguments):
            return ("concat", [_value(one, number_of) for one in arguments])
        case Function(name, (Copy(path),)):
            return (_FUNCTIONS[name], number_of(path))
    raise NotEncodable


class _Writer:
    """A template as pieces: ``result`` is what each group makes, ``number_of`` gives the numbers of paths."""

    def __init__(self, number_of: Callable[[Path], int], result: Sequence[Item | Element] = ()) -> None:
        self.number_of = number_of
        self.result = result
        self.pieces: list[Piece] = []
        self.groups: list[Piece] = []

    def markup(self, text: str) -> None:
        if self.pieces and self.pieces[-1][0] == "markup":
            self.pieces[-1] = ("markup", self.pieces[-1][1] + text.encode())
        else:
            self.pieces.append(("markup", text.encode()))

    def element(self, element: Element, scope: Scope, default: str, *, nested: bool) -> None:
        wanted, default = declarations(element, scope, default, nested=nested)
        fresh = {p: uri for p, uri in wanted.items() if scope.get(p, "") != uri and p != "xml"}
        self.markup(f"<{element.name}")
        for prefix, uri in sorted(fresh.items()):
            self.markup(f' xmlns{":" if prefix else ""}{prefix}="{quoted(uri)}"')
        for one in element.attributes:
            self.attribute(one)
        copied = [
            self.number_of(item.path)
            for part in element.content
            for item in (part.items if isinstance(part, Hole) else ())
            if isinstance(item, Copy) and item.path.kind == "attribute"
        ]
        if copied:
            names = [(one.name.ns, one.name.local) for one in element.attributes]
            self.pieces.append(("attributes", copied, *(_pairs(p) for p in (wanted.items(), scope.items(), names))))
        if not element.content:
            self.markup("/>")
            return
        self.markup(">")
        for part in element.content:
            self.content(part, {**scope, **fresh}, default)
        self.markup(f"</{element.name}>")

    def attribute(self, attribute: Attribute) -> None:
        self.markup(f' {attribute.name}="')
        for part in attribute.parts:
            if isinstance(part, str):
                self.markup(quoted(part))
            else:
                values = [
                    ("joined", self.number_of(item.path)) if isinstance(item, Copy) else _value(item, self.number_of)
                    for item in part.items
                    if not isinstance(item, Element)
                ]
                self.pieces.append(("quoted", ("spaced", values)))
        self.markup('"')

    def content(self, part: Content, scope: Scope, default: str) -> None:
        match part:
            case str():
                self.markup(escaped(part))
            case Element():
                self.element(part, scope, default, nested=True)
            case Comment(text):
                self.markup(f"<!--{text}-->")
            case Instruction(target, text):
                self.markup(f"<?{target} {text}?>" if text else f"<?{target}?>")
            case Hole(items):
                self.pieces.append(("sequence",))
                self.sequence(items, scope, default)
            case Groups():
                around, self.pieces = self.pieces, []
                self.sequence(self.result, scope, default)
                self.groups, self.pieces = self.pieces, [*around, _GROUPS]

    def sequence(self, items: Sequence[Item | Element], scope: Scope, default: str) -> None:
        for item in items:
            match item:
                case Element():
                    self.element(item, scope, default, nested=False)
                case Copy(path):
                    if path.kind != "attribute":
                        self.pieces.append(("copy", self.number_of(path), bool(scope.get(""))))
                case _:
                    self.pieces.append(("item", _value(item, self.number_of)))


def _pairs(pairs: Any) -> list[tuple[bytes, bytes]]:
    return [(a.encode(), b.encode()) for a, b in pairs]


def declarations(element: Element, scope: Scope, default: str, *, nested: bool) -> tuple[dict[str, str], str]:
    """Return the namespaces by prefix that an element must have in scope, and the default namespace inside it.

    ``scope`` has what is declared around it, as written so far; the default namespace has the prefix ``""``.
    ``default`` is what the tags around it in the query declare. ``nested``: it stands directly inside another tag.
    """
    wanted = dict(element.declared)
    default = wanted.get("", default)
    if element.name.prefix:
        # As Saxon has it: in braces an element inherits the default of its new place as any copy does, directly
        # inside another tag it has what the tags declare (and not, say, the prolog).
        if nested:
            wanted[""] = default
        elif not default:
            wanted.pop("", None)
    for name in (element.name, *(one.name for one in element.attributes if one.name.prefix)):
        if name.ns != XML_NAMESPACE and (name.ns or scope.get("", "")):
            wanted.setdefault(name.prefix, name.ns)
    return wanted, default


def escaped(text: str) -> str:
    """Return a text as character data."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def quoted(text: str) -> str:
    """Return a text as it stands inside the quotes of an attribute."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("\t", "&#9;").replace("\n", "&#10;").replace("\r", "&#13;")
