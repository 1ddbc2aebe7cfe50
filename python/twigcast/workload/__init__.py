"""Workloads: the papers' generators of documents and queries from a DTD, and realistic feeds for the demo."""

from twigcast.schema.dtd import Dtd, read_dtd
from twigcast.workload.documents import DocumentGenerator
from twigcast.workload.queries import QueryGenerator, QuerySettings
from twigcast.workload.vocabularies import VOCABULARIES, vocabulary

__all__ = [
    "VOCABULARIES",
    "DocumentGenerator",
    "Dtd",
    "QueryGenerator",
    "QuerySettings",
    "read_dtd",
    "vocabulary",
]
