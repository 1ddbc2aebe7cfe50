from __future__ import annotations

import pytest
from lxml import etree

from twigcast.workload.feeds import FEEDS, Feed

each_feed = pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)


@each_feed
def test_messages_are_well_formed_varied_and_repeatable(feed: Feed) -> None:
    messages = list(feed.messages(100, seed=5))
    assert len(set(messages)) == 100
    assert messages == list(feed.messages(120, seed=5))[:100]
    assert messages != list(feed.messages(100, seed=6))
    spaces = {etree.QName(node).namespace for m in messages for node in etree.fromstring(m).iter()}
    assert spaces == set(feed.namespaces.values())


@each_feed
def test_subscriptions_are_structural_and_selective(feed: Feed) -> None:
    subscriptions = list(feed.subscriptions(400, seed=5))
    assert subscriptions == list(feed.subscriptions(500, seed=5))[:400]
    assert len({s.id for s in subscriptions}) == 400
    assert not any("[" in s.query for s in subscriptions)
    roots = [etree.fromstring(m) for m in feed.messages(150, seed=5)]
    paths = [etree.XPath(s.query, namespaces=dict(s.namespaces or {})) for s in subscriptions]
    hits = sum(bool(path(root)) for path in paths for root in roots)
    assert 0.005 < hits / len(paths) / len(roots) < 0.1
