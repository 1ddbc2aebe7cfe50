"""Random transforms over the vocabulary of support.random_document: namespaces, attributes, text, functions, order."""

from __future__ import annotations

from random import Random

NAMES = ("a", "b", "c")
PROLOG = 'declare namespace x = "urn:p"; declare namespace y = "urn:q";\n'


def random_transform(random: Random) -> str:
    return _Maker(random).transform()


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, odds: float) -> bool:
        return self.random.random() < odds

    def transform(self) -> str:
        random = self.random
        prolog = PROLOG
        self.names = ("e", "f", "x:e", "q")
        if self.chance(0.15):
            prolog += 'declare default element namespace "urn:p";\n'
        binding = "".join(self.step(0.5) for _ in range(random.randint(1, 3)))
        lines = [f"for $v in {binding}"]
        if self.chance(0.3):
            lines.append(f"let $l := $v{self.path()}")
        if self.chance(0.5):
            lines.append(f"where {self.condition()}")
        if self.chance(0.2):
            lines.append(f"order by {self.key()}{random.choice(('', ' descending', ' empty greatest'))}")
        self.lets = "let $l" in "".join(lines)
        lines.append("return " + self.result())
        space = random.choice(("", " ", "\n  "))
        outer = random.choice(("r", "x:r", "r"))
        declared = random.choice(("", "", "", ' xmlns:p="urn:z"', ' xmlns="urn:q"', ' p="1"'))
        before = random.choice(("", "", "text ", "<!-- c -->", "<k/>"))
        return f"{prolog}<{outer}{declared}>{before}{space}{{ {' '.join(lines)} }}{space}</{outer}>"

    def test(self) -> str:
        return self.random.choice((*NAMES, *NAMES, "*", "x:a", "y:b", "x:*"))

    def step(self, deep: float = 0.3) -> str:
        axis = "//" if self.chance(deep) else "/"
        filters = ""
        if self.chance(0.2):
            filters = f"[{self.random.choice(('@a', '@*', 'b', '* or @b', 'not(c)', '1', 'last()', './/c', 'text()'))}]"
        return axis + self.test() + filters

    def path(self) -> str:
        return "".join(self.step() for _ in range(self.random.randint(1, 2)))

    def leaf_path(self) -> str:
        kind = self.random.random()
        before = self.path() if self.chance(0.4) else ""
        if kind < 0.3:
            return before + "/text()"
        if kind < 0.4:
            return before + "//text()"
        if kind < 0.5:
            return before + "/node()"
        if kind < 0.55:
            return before + "/comment()"
        return self.path()

    def condition(self) -> str:
        random = self.random
        kind = random.randint(0, 9)
        path = "$v" + self.path()
        match kind:
            case 0:
                return path + " = " + random.choice(('""', '"t"', '"v"', '"tt"'))
            case 1:
                return f'$v/@{random.choice(NAMES)} = "v"'
            case 2:
                return f"not({self.condition()})"
            case 3:
                return f"{self.condition()} and {self.condition()}"
            case 4:
                return f"({self.condition()} or {self.condition()})"
            case 5:
                return f"count({path}) {random.choice(('=', '>', '<='))} {random.randint(0, 2)}"
            case 6:
                return f'{path} != "t"'
            case 7:
                return 'contains($v, "t")'
        return path

    def key(self) -> str:
        return self.random.choice((f"$v{self.path()}", "$v", "$v/@a", f"count($v{self.path()})", "string($v)"))

    def result(self) -> str:
        kind = self.random.random()
        if kind < 0.15:
            return "$v"
        if kind < 0.3:
            return f"$v{self.leaf_path()}"
        if kind < 0.4:
            return f"(<i/>, {self.value()}, $v{self.path()}, {self.value()})"
        return self.element(0)

    def element(self, depth: int) -> str:
        random = self.random
        name = random.choice(self.names)
        attributes = random.choice(
            ("", "", ' k="v"', ' x:k="a {{ b"', ' xmlns="urn:p"', ' xmlns=""', ' xmlns:p="urn:q"')
        )
        if self.chance(0.3):
            attributes += ' h="' + random.choice(("", "n ")) + f'{{ {self.value()} }}"'
        content = "{ $v/@a }" if self.chance(0.2) else ""
        for _ in range(random.randint(0, 3)):
            content += random.choice(("", " ", "\n", " t ", "&amp;", "}}", "<![CDATA[<]]>", "<!--c-->", "<?p i?>"))
            kind = random.random()
            if kind < 0.2 and depth < 2:
                content += self.element(depth + 1)
            elif kind < 0.3:
                content += f"{{ {self.value()}, $v{self.leaf_path()}, {self.value()} }}"
            elif kind < 0.5:
                content += f"{{ {self.value()} }}"
            elif kind < 0.6 and self.lets:
                content += "{ $l }"
            else:
                content += f"{{ $v{self.leaf_path()} }}"
        return f"<{name}{attributes}>{content}</{name}>"

    def value(self) -> str:
        path = "$v" + self.leaf_path()
        return self.random.choice(
            (
                '"s"',
                '"a &amp; ""b"""',
                "string($v)",
                f"count({path})",
                f"string({path})",
                f'concat("c", {path})',
                "count($v/@*)",
            )
        )
