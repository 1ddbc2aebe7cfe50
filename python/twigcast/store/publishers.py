"""What is checked about a publisher before it is stored: above all that its schema can be read."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from twigcast.errors import OptionError, TwigcastError
from twigcast.schema import read_schema
from twigcast.store.records import PublisherRecord
from twigcast.subscription import CHECKS, check_subscriber_id

KINDS = ("dtd", "xsd")
ON_INVALID = ("reject", "fallback", "trust")


def check_publisher(publisher: PublisherRecord) -> None:
    """Raises an OptionError."""
    try:
        check_subscriber_id(publisher.id)
    except OptionError as error:
        raise OptionError("bad-publisher", f"{publisher.id!r} cannot be a publisher's id", hint=error.hint) from None
    CHECKS["stream"](publisher.stream)
    if publisher.schema_kind not in KINDS:
        raise OptionError("bad-schema-kind", f"there is no schema kind {publisher.schema_kind!r}; it is dtd or xsd")
    if publisher.on_invalid not in ON_INVALID:
        text = f"there is no on_invalid {publisher.on_invalid!r}; it is reject, fallback or trust"
        raise OptionError("bad-on-invalid", text)
    _check_schema(publisher)


def _check_schema(publisher: PublisherRecord) -> None:
    # Alone in a folder, as a worker will find it: what it includes from other files is not there.
    with tempfile.TemporaryDirectory(prefix="twigcast-schema-") as folder:
        path = Path(folder) / f"schema.{publisher.schema_kind}"
        path.write_text(publisher.schema, encoding="utf-8")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is not there; it is an error next
                schema = read_schema(path, publisher.schema_kind)
            schema.prepare()
        except TwigcastError as error:
            said = error.text
            hint = "a schema in the store is one text: write what it includes from other files into it"
            text = said.replace(str(path), "the schema").replace(f"{folder}/", "")
            raise OptionError(error.code, text, hint=hint if "nclu" in said or "mport" in said else None) from None
