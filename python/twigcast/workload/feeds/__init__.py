"""Realistic messages of three vocabularies, and subscriptions for them: what the demo runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from twigcast.engine import Subscription
from twigcast.workload.feeds import alerts, news, payments
from twigcast.workload.feeds.interests import SAMPLE, interests
from twigcast.workload.feeds.markup import Dice

XML = "http://www.w3.org/XML/1998/namespace"


@dataclass(frozen=True, slots=True)
class Feed:
    """One vocabulary. The same seed gives the same messages and subscriptions, however many are taken."""

    name: str
    namespaces: Mapping[str, str]  # prefix -> URI, as the subscriptions use them
    write: Callable[[Dice, int], str]

    def message(self, index: int, seed: int = 0) -> bytes:
        return self.write(Dice(f"{self.name}/{seed}/{index}"), index).encode()

    def messages(self, count: int, seed: int = 0) -> Iterator[bytes]:
        return (self.message(index, seed) for index in range(count))

    def subscriptions(self, count: int, seed: int = 0) -> Iterator[Subscription]:
        """Structural paths, repeats among them, ids ``<feed>-<number>``."""
        prefixes = {uri: prefix for prefix, uri in self.namespaces.items()} | {XML: "xml"}
        queries = interests(self.messages(SAMPLE, seed), prefixes, seed)
        for number, query in enumerate(islice(queries, count), start=1):
            yield Subscription(f"{self.name}-{number}", query, self.namespaces)


FEEDS: Mapping[str, Feed] = {
    "payments": Feed("payments", {payments.PREFIX: payments.NAMESPACE}, payments.message),
    "news": Feed("news", {news.PREFIX: news.NAMESPACE, "h": news.XHTML}, news.message),
    "alerts": Feed("alerts", {alerts.PREFIX: alerts.NAMESPACE}, alerts.message),
}
