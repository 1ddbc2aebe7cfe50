"""Stage 1: what the blocks of correlations bind in a message, as the paper's relations (joins §3.1)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from twigcast import _kernel
from twigcast.correlate.default import Blocks
from twigcast.correlation import Block
from twigcast.errors import MessageError


class Witnesses:
    """All blocks, matched at once. Equal blocks have one number."""

    def __init__(self) -> None:
        self._kernel = _kernel.Correlator()
        self._blocks = Blocks(self._kernel)

    def add(self, block: Block) -> tuple[int, tuple[int, ...]]:
        """The number of the block, and those that its variables have here. Raises NotEncodable where the kernel has no
        word for a step."""
        return self._blocks.add(block)

    def of(self, stream: str, xml: bytes, *, derived: bool = False) -> tuple[pa.StructArray, pa.StructArray]:
        """R_binW: (block, variable, parent, node) for every variable that is bound, the first one of a block with
        itself for a parent; and R_docW: (node, value) for all these nodes. Only whole embeddings count."""
        found, error = self._kernel.witnesses(self._blocks.streams(stream, derived), xml)
        if found is None or error is not None:
            assert error is not None
            code, text, line, column, offset = error
            raise MessageError(code, text, line=line, column=column, offset=offset)
        bindings, values = (pa.array(one) for one in found)
        texts = pc.cast(values.field("value"), pa.string())
        return bindings, pa.StructArray.from_arrays([values.field("node"), texts], ["node", "value"])
