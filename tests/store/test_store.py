from __future__ import annotations

from collections.abc import Iterator

import pytest

from twigcast.engine import Engine
from twigcast.errors import OptionError, QueryError, TwigcastError
from twigcast.store import PublisherRecord, Store, SubscriptionRecord

SECRET = "whsec_" + "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store.open(store_url) as store:
        yield store


def ids(store: Store) -> list[str]:
    return [record.id for record in store.subscriptions()]


def test_a_subscription_comes_back_as_it_was(store: Store) -> None:
    store.add_subscriber("alice")
    given = store.subscribe(
        "//p:a[b = 'é']",
        id="α 1",
        subscriber="alice",
        namespaces={"p": "urn:x"},
        default_namespace="urn:d",
        dialect="tian",
        result="fragments",
        stream="orders",
        max_delay=1500,
    )
    assert given.version == store.version == 2
    assert store.subscription("α 1") == given
    assert list(store.subscriptions()) == [given]
    subscription = given.to_subscription()
    assert (subscription.id, subscription.dialect, subscription.result) == ("α 1", "tian", "fragments")
    Engine().add_many([subscription])


def test_without_an_id_it_gets_one(store: Store) -> None:
    made = {store.subscribe("/a").id for _ in range(5)}
    assert len(made) == 5 and made == set(ids(store))


def test_a_bad_query_stores_nothing(store: Store) -> None:
    with pytest.raises(QueryError) as raised:
        store.subscribe("/a[b = ", id="x")
    assert raised.value.span is not None and "^" in str(raised.value)
    for query, options in {
        "/p:a": {},
        "count(/a)": {"result": "nodes"},
        "/a": {"dialect": "c3w"},
        "/b": {"result": "all"},
        "/c": {"kind": "query"},
        "/d": {"subscriber": "nobody"},
    }.items():
        with pytest.raises(TwigcastError):
            store.subscribe(query, **options)
    assert (store.version, len(store)) == (0, 0)


def test_a_shape_that_was_refused_once_is_refused_again(store: Store) -> None:
    for _ in range(4):
        with pytest.raises(QueryError):
            store.subscribe("count(/a[b = 1])", result="nodes")
    store.subscribe("count(/a[b = 2])")
    with pytest.raises(QueryError):
        store.subscribe("count(/a[b = 3])", result="nodes")


def test_kinds_that_are_not_there(store: Store) -> None:
    with pytest.raises(OptionError) as raised:
        store.subscribe("/a", kind="collate")
    assert "no kind 'collate'" in str(raised.value) and "filter, transform, correlate" in str(raised.value)


def test_correlations_are_checked(store: Store) -> None:
    query = "S//a->x FOLLOWED BY{x = y, 5 min} S//b->y"
    assert store.subscribe(query, id="c").kind == "correlate"
    with pytest.raises(OptionError, match="not as a correlation"):
        store.subscribe("/a", kind="correlate")
    with pytest.raises(OptionError, match="a correlation, not as a filter"):
        store.subscribe(query, kind="filter")
    with pytest.raises(OptionError, match="reads the streams that its blocks name"):
        store.subscribe(query, stream="S")
    with pytest.raises(QueryError):
        store.subscribe("S//a->x FOLLOWED BY{x = z, 5 min} S//b->y")


def test_the_kind_is_what_the_query_is(store: Store) -> None:
    transform = "<r>{ for $x in //a return $x }</r>"
    assert store.subscribe(transform, id="t").kind == "transform"
    assert store.subscribe("//a", id="f").kind == "filter"
    with pytest.raises(OptionError, match="a transform, not as a filter"):
        store.subscribe(transform, kind="filter")
    with pytest.raises(OptionError, match="not as a transform"):
        store.subscribe("//a", kind="transform")
    with pytest.raises(QueryError):
        store.subscribe("<r>{ for $x in //a return }</r>")


def test_an_id_is_taken_once(store: Store) -> None:
    store.subscribe("/a", id="x")
    with pytest.raises(OptionError, match="already"):
        store.subscribe("/b", id="x")
    assert store.subscription("x").query == "/a" and store.version == 1


@pytest.mark.parametrize("id", ["", "a\nb", "a\0b", "x" * 256, 7, "\ud800"])
def test_what_is_no_id(store: Store, id: str) -> None:
    with pytest.raises(OptionError):
        store.subscribe("/a", id=id or " \t")


def test_replace_pause_resume_unsubscribe(store: Store) -> None:
    store.subscribe("/a", id="x", max_delay=5)
    assert store.replace("x", "/b").max_delay is None
    assert store.pause("x") == 1 and store.pause("x") == 0
    assert store.subscription("x").state == "paused"
    assert store.version == 3
    assert store.resume("x") == 1
    store.unsubscribe("x")
    assert (ids(store), store.version) == ([], 5)
    for change in (store.unsubscribe, store.pause, store.resume):
        with pytest.raises(OptionError, match="no subscription 'x'"):
            change("x")
    with pytest.raises(OptionError, match="no subscription 'x'"):
        store.replace("x", "/a")
    with pytest.raises(OptionError):
        store.subscription("x")


def test_many_are_removed_together_or_not_at_all(store: Store) -> None:
    many = [store.subscribe("/a", id=f"s{i:04}").id for i in range(30)]
    with pytest.raises(OptionError, match=r"'t1' \(and 1 more"):
        store.unsubscribe(*many[:10], "t1", "t2")
    assert len(store) == 30
    store.pause(*many, many[0])
    store.unsubscribe(*many)
    assert (len(store), store.version) == (0, 32)


def test_lists_can_be_narrowed(store: Store) -> None:
    store.add_subscriber("alice")
    store.subscribe("/a", id="2", subscriber="alice")
    store.subscribe("/b", id="10", subscriber="alice", state="paused")
    store.subscribe("/c", id="B")
    store.subscribe("/c", id="a")
    assert ids(store) == ["10", "2", "B", "a"]  # by their bytes, whatever the database's language
    assert [r.id for r in store.subscriptions(subscriber="alice", state="active")] == ["2"]


def test_subscribers(store: Store) -> None:
    webhook = {"webhook": {"url": "https://example.org/in", "secret": SECRET}}
    added = store.add_subscriber("al.b@example.org", name="Al", targets=webhook)
    assert store.subscribers() == [added] == [store.subscriber("al.b@example.org")]
    assert added.targets == webhook and added.created.tzinfo is not None
    assert SECRET not in repr(added) and SECRET not in str(added.shown_targets())
    store.set_targets("al.b@example.org", {"kafka": {"topic": "al"}})
    assert store.subscriber("al.b@example.org").targets == {"kafka": {"topic": "al"}}
    with pytest.raises(OptionError, match="already"):
        store.add_subscriber("al.b@example.org")
    with pytest.raises(OptionError, match="subscriber add bob"):
        store.subscribe("/a", subscriber="bob")


@pytest.mark.parametrize("id", ["", "../x", "a/b", ".x", "a b", "x" * 129, "é"])
def test_what_is_no_subscriber(store: Store, id: str) -> None:
    with pytest.raises(OptionError):
        store.add_subscriber(id)


@pytest.mark.parametrize(
    "targets",
    [
        {"mail": {"to": "x"}},
        {"webhook": {}},
        {"webhook": {"url": "ftp://example.org"}},
        {"webhook": {"url": "http://127.0.0.1:99999/hook"}},
        {"webhook": {"url": "http://127.0.0.1:0/hook"}},
        {"webhook": {"url": "http://example.org:http/hook"}},
        {"webhook": {"url": "http://:80/hook"}},
        {"webhook": {"url": "http://[::1"}},
        {"webhook": {"url": "http://[::1]:x/"}},
        {"webhook": {"url": "http://example.org/\x01"}},
        {"webhook": {"url": "https://user:hidden@example.org"}},
        {"webhook": {"url": "https://example.org", "secret": "hidden"}},
        {"webhook": {"url": "https://example.org", "key": "hidden"}},
        {"kafka": {"topic": "a b"}},
    ],
)
def test_what_is_no_target(store: Store, targets: dict[str, dict[str, str]]) -> None:
    with pytest.raises(OptionError) as raised:
        store.add_subscriber("x", targets=targets)
    assert "hidden" not in str(raised.value)
    assert store.subscribers() == []


def test_a_subscriber_goes_with_its_subscriptions_or_stays(store: Store) -> None:
    store.add_subscriber("alice")
    store.subscribe("/a", subscriber="alice", id="x")
    store.subscribe("/a", id="y")
    before = store.version
    with pytest.raises(OptionError, match="has 1 subscriptions"):
        store.remove_subscriber("alice")
    assert store.remove_subscriber("alice", with_subscriptions=True) == 1
    assert (ids(store), store.subscribers()) == (["y"], [])
    assert store.changes(before).removed == ["x"]
    with pytest.raises(OptionError):
        store.remove_subscriber("alice")


def test_publishers(store: Store) -> None:
    shop = PublisherRecord("shop", "orders", "<!ELEMENT a EMPTY>", "dtd")
    store.put_publisher(shop)
    store.put_publisher(PublisherRecord("shop", "orders", "<!ELEMENT b EMPTY>", "dtd", "reject"))
    assert [(p.schema, p.on_invalid) for p in store.publishers()] == [("<!ELEMENT b EMPTY>", "reject")]
    with pytest.raises(OptionError):
        store.put_publisher(PublisherRecord("shop", "orders", "", "rng"))
    with pytest.raises(OptionError, match="already"):
        store.put_publisher(shop, replace=False)
    assert store.publisher("shop").on_invalid == "reject"
    store.remove_publisher("shop")
    for ask in (store.remove_publisher, store.publisher):
        with pytest.raises(OptionError, match="no publisher 'shop'"):
            ask("shop")


_INCLUDES = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:include schemaLocation="x.xsd"/></xs:schema>'


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (PublisherRecord("a/b", "orders", "<!ELEMENT a EMPTY>", "dtd"), "bad-publisher"),
        (PublisherRecord("a", "or/ders", "<!ELEMENT a EMPTY>", "dtd"), "bad-stream"),
        (PublisherRecord("a", "orders", "<!ELEMENT a (b", "dtd"), "dtd-malformed"),
        (PublisherRecord("a", "orders", "<schema/>", "xsd"), "xsd-malformed"),
        (PublisherRecord("a", "orders", _INCLUDES, "xsd"), "xsd-malformed"),
        (PublisherRecord("a", "orders", "<!ELEMENT a EMPTY>", "dtd", "ignore"), "bad-on-invalid"),
    ],
)
def test_publishers_that_are_none(store: Store, record: PublisherRecord, code: str) -> None:
    with pytest.raises(OptionError) as caught:
        store.put_publisher(record)
    assert caught.value.code == code and "twigcast-schema" not in str(caught.value)
    assert store.publishers() == [] and store.version == 0


def test_a_store_stays_what_it_is(store_url: str) -> None:
    with Store.open(store_url) as store:
        identity = store.identity
        store.subscribe("/a", id="x")
    with Store.open(store_url, create=False) as store:
        assert (store.identity, store.version, ids(store)) == (identity, 1, ["x"])


def test_load_is_of_one_version(store: Store) -> None:
    for i in range(3):
        store.subscribe("/a", id=f"s{i}")
    store.pause("s1")
    version, records = store.load()
    store.unsubscribe("s0")
    store.subscribe("/b", id="s9")
    assert version == 4
    assert [r.id for r in records] == ["s0", "s2"]
    assert store.changes(version).removed == ["s0"]


def test_a_load_that_is_given_up_holds_nothing(store: Store) -> None:
    store.subscribe("/a", id="x")
    for _ in range(20):  # more than connections are pooled
        _, records = store.load()
        records.close()  # type: ignore[attr-defined]
    assert isinstance(next(store.load()[1]), SubscriptionRecord)


def test_a_cycle_of_published_streams_is_refused(store: Store) -> None:
    made = "SELECT <n>{{ $x }}</n> FROM {}/a->x PUBLISH {}"
    store.subscribe(made.format("S", "P"), id="a")
    store.subscribe(made.format("P", "Q"), id="b")
    with pytest.raises(QueryError) as refused:
        store.subscribe(made.format("Q", "P"), id="c")
    assert refused.value.code == "stream-cycle"
    store.pause("b")
    store.subscribe(made.format("Q", "P"), id="c")
    with pytest.raises(QueryError):
        store.replace("a", made.format("P", "Q"))
    with pytest.raises(QueryError):
        store.resume("b")
    store.unsubscribe("c")
    assert store.resume("b") == 1
