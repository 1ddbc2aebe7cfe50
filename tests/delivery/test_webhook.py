"""Webhooks to servers that behave, and to servers that do not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from batches import commit, expected, pipeline, some
from hooks import Hooks, serving
from pydantic import SecretStr

from twigcast import config
from twigcast.delivery.breaker import Breaker
from twigcast.delivery.http import header_value, signed
from twigcast.delivery.runner import Runner
from twigcast.delivery.sinks.webhook import UNSENDABLE
from twigcast.delivery.slots import Load, allot

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def hook_settings(folder: Path, url: str | None, **more: Any) -> config.Pipeline:
    sink = {
        "kind": "webhook", "url": url, "secret": SECRET, "allow": ["127.0.0.0/8"], "timeout": 2, "breaker_pause": 0.2,
        "max_attempts": 100,
    }  # fmt: skip
    return pipeline(folder, {"hook": {**sink, **more}})


def run(settings: config.Pipeline, count: int = 10, patience: float = 10, **more: Any) -> tuple[list[str], Runner]:
    log = commit(settings, 0, some(0, count), **more)
    ids = expected([log])
    with Runner(settings) as runner:
        assert runner.drain(patience=patience)
    return ids, runner


def letters(settings: config.Pipeline) -> list[Any]:
    from twigcast.delivery.dead import DeadLetters

    dead = DeadLetters(settings.state.dead)
    found = dead.letters()
    dead.close()
    return found


def test_a_signed_call(tmp_path: Path) -> None:
    with serving() as hooks:
        ids, _ = run(hook_settings(tmp_path, hooks.url + "?a=b&é"), body="<a>é</a>".encode())
    assert hooks.ids == ids and len(hooks.requests) == 10
    request = hooks.requests[0]
    assert request.path == "/hook?a=b&%C3%A9"
    assert request.body == "<a>é</a>".encode()
    text = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    signature = base64.b64encode(hmac.new(bytes(range(32)), text, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{signature}"
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 60
    assert request.headers["content-type"] == "application/xml"
    assert request.headers["twigcast-stream"] == "s" and request.headers["twigcast-subscription"] in ("q0", "q1", "q2")


def test_signature_of_the_specification() -> None:
    # the example of the Standard Webhooks specification and of its reference libraries
    headers = signed(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1614265330
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    two = signed("i", b"", f"{SECRET} {SECRET}")["webhook-signature"].split()
    assert len(two) == 2 and two[0] == two[1]
    assert "webhook-signature" not in signed("i", b"", None)


def test_half_of_the_calls_refused(tmp_path: Path) -> None:
    with serving(lambda request: 500 if request.number % 2 else 200) as hooks:
        ids, _ = run(hook_settings(tmp_path, hooks.url), 60)
    assert hooks.ids == ids and len(hooks.accepted) == 60


def test_hangs_resets_and_dribbles(tmp_path: Path) -> None:
    bad = {1: "hang", 3: "reset", 5: "dribble", 7: "reset", 8: "hang"}
    with serving(lambda request: bad.get(request.number, 200)) as hooks:
        ids, _ = run(hook_settings(tmp_path, hooks.url, timeout=0.7), 20)
    assert hooks.ids == ids and len(hooks.accepted) == 20


def test_retry_after_is_heeded(tmp_path: Path) -> None:
    def answer(request: Any) -> Any:
        return (429, {"Retry-After": "1"}) if request.number == 2 else 200

    with serving(answer) as hooks:
        ids, _ = run(hook_settings(tmp_path, hooks.url, concurrency=1, max_attempts=1), 6)
    assert hooks.ids == ids
    # nobody called meanwhile, and being asked to wait was no failure
    assert hooks.requests[3].at - hooks.requests[2].at >= 0.99


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    with serving() as private, serving() as hooks:
        hooks.behaviour = lambda request: (302, {"Location": private.url})
        run(hook_settings(tmp_path, hooks.url, max_attempts=2), 1)
        assert private.requests == [] and len(hooks.requests) == 2
    [letter] = letters(hook_settings(tmp_path, hooks.url))
    assert (letter.reason, letter.text, letter.attempts) == ("webhook-attempts", "HTTP status 302", 2)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "169.254.169.254"]
)
def test_private_addresses_are_refused(tmp_path: Path, host: str) -> None:
    with serving() as hooks:
        port = hooks.url.split(":")[2]
        settings = hook_settings(tmp_path, f"http://{host}:{port}", allow=[], max_attempts=2)
        run(settings, 1)
        assert hooks.requests == []
    [letter] = letters(settings)
    assert letter.reason == "webhook-impossible" and "not a public address" in letter.text


def test_concurrency_and_breaker(tmp_path: Path) -> None:
    def slow(request: Any) -> int:
        time.sleep(0.02)
        return 200

    with serving(slow) as hooks:
        run(hook_settings(tmp_path / "1", hooks.url, concurrency=3), 30)
        assert hooks.busiest == 3
    down = True

    def broken(request: Any) -> int:
        return 503 if down else 200

    with serving(broken) as hooks:
        settings = hook_settings(tmp_path / "2", hooks.url, breaker_failures=3, breaker_pause=0.5, concurrency=2)
        log = commit(settings, 0, some(0, 20))
        ids = expected([log])
        with Runner(settings) as runner:
            time.sleep(1.8)
            # three, and those under way then; afterwards one call per pause
            assert 4 <= len(hooks.requests) <= 8
            [status] = runner.status()
            assert status.waiting == 20 and status.error == "HTTP status 503" and status.failing_since is not None
            down = False
            assert runner.drain()
            assert runner.status()[0].error is None
    assert hooks.ids == ids


def test_breaker() -> None:
    breaker = Breaker(2, 10)
    assert breaker.room(0, 4, 1) == 3
    breaker.failed(0)
    assert breaker.room(0, 4, 0) == 4
    breaker.failed(1)
    assert breaker.open and breaker.room(5, 4, 0) == 0
    assert breaker.room(12, 4, 0) == 1 and breaker.room(12, 4, 1) == 0
    breaker.failed(12)
    assert breaker.room(13, 4, 0) == 0
    breaker.succeeded()
    assert breaker.room(13, 4, 0) == 4 and not breaker.open


def test_gone_is_gone(tmp_path: Path) -> None:
    with serving(lambda request: 410) as hooks:
        settings = hook_settings(tmp_path, hooks.url)
        run(settings, 1)
        assert len(hooks.requests) == 1
    assert letters(settings)[0].reason == "webhook-refused"


def test_too_old(tmp_path: Path) -> None:
    with serving(lambda request: 500) as hooks:
        settings = hook_settings(tmp_path, hooks.url, max_age=0.3, breaker_failures=1000)
        run(settings, 3)
    assert {letter.reason for letter in letters(settings)} == {"webhook-age"} and len(letters(settings)) == 3


class Store:
    def __init__(self, targets: dict[str, dict[str, dict[str, str]]]) -> None:
        self.targets_of = targets

    def subscriber(self, id: str) -> Any:
        from types import SimpleNamespace

        from twigcast.errors import OptionError

        if id not in self.targets_of:
            raise OptionError("no-such-subscriber", id)
        return SimpleNamespace(targets=self.targets_of[id])


def test_targets_of_subscribers(tmp_path: Path) -> None:
    """One subscriber's dead server takes nothing from the others; one without a target has no deliveries here."""
    with serving() as alice, serving(lambda request: "hang") as bob:
        store = Store(
            {"alice": {"webhook": {"url": alice.url, "secret": SECRET}}, "bob": {"webhook": {"url": bob.url}}}
        )
        settings = hook_settings(tmp_path, None, timeout=5)
        rows = [(f"m{n}", f"of-{who}", who) for n in range(20) for who in ("bob", "alice", "carol", None)]
        commit(settings, 0, rows)
        with Runner(settings, store) as runner:
            until = time.time() + 10
            while len(alice.accepted) < 20 and time.time() < until:
                time.sleep(0.05)
            assert len(alice.accepted) == 20
            assert runner.status()[0].waiting == 20  # bob's
            bob.behaviour = lambda request: 200
            bob.end.set()
            assert runner.drain(patience=20)
    assert len(bob.ids) == 20 and "webhook-signature" not in bob.requests[0].headers
    assert letters(settings) == []


def test_a_route_sends_deliveries_to_a_sink_without_a_target(tmp_path: Path) -> None:
    """What a route asks for is done or told: without a target it is a dead letter."""
    settings = hook_settings(tmp_path, None)
    sinks = {"hook": settings.sinks["hook"].model_dump(mode="json", exclude={"secret"})}
    settings = pipeline(tmp_path, sinks, routes=[{"subscribers": ["carol"], "sinks": ["hook"]}])
    commit(settings, 0, [("m", "q", "carol"), ("m", "q", "dave")])
    with Runner(settings, Store({})) as runner:
        assert runner.drain()
    assert [(letter.subscriber, letter.reason) for letter in letters(settings)] == [("carol", "webhook-impossible")]


def test_a_target_that_comes_later_counts_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twigcast.delivery.targets.KEPT", 0.0)
    with serving() as hooks:
        store, settings = Store({"alice": {}}), hook_settings(tmp_path, None)
        with Runner(settings, store) as runner:
            commit(settings, 0, [("before", "q", "alice")])
            assert runner.drain()
            store.targets_of["alice"] = {"webhook": {"url": hooks.url}}
            commit(settings, 1, [("after", "q", "alice")])
            assert runner.drain()
    assert [request.headers["twigcast-message"] for request in hooks.accepted] == ["after"]
    assert letters(settings) == []


def test_slow_targets_leave_slots_for_a_quick_one(tmp_path: Path) -> None:
    """Targets that answer slowly, and always well, would together take more calls than a sink makes at a time."""
    released = threading.Event()

    def answer(request: Any) -> int:
        if request.path != "/quick":
            released.wait(20)
        return 200

    slow = [f"slow{number}" for number in range(40)]
    with serving(answer) as hooks:
        base = hooks.url.removesuffix("/hook")
        store = Store({who: {"webhook": {"url": f"{base}/{who}"}} for who in (*slow, "quick")})
        settings = hook_settings(tmp_path, None, timeout=30)
        commit(settings, 0, [(f"m{n}", f"of-{who}", who) for n in range(5) for who in (*slow, "quick")])
        with Runner(settings, store) as runner:
            until = time.time() + 15
            while sum(request.path == "/quick" for request in hooks.accepted) < 5 and time.time() < until:
                time.sleep(0.02)
            quick = sum(request.path == "/quick" for request in hooks.accepted)
            released.set()
            assert runner.drain()
    assert quick == 5
    assert len(hooks.ids) == 5 * 41


def test_shares_of_slots() -> None:
    idle, busy, slow = Load(0, False), Load(2, False), Load(2, True)
    assert busy.shared == 1 and slow.shared == 2 and idle.shared == 0
    # Alone, a target gets what it wants, up to its first slot and the shared ones.
    assert allot([("a", 3)], {"a": idle}, 8, 4) == {"a": 3}
    assert allot([("a", 9)], {"a": idle}, 8, 4) == {"a": 5}
    # First calls come before second ones, whoever asks first.
    assert allot([("a", 9), ("b", 1), ("c", 1)], {"a": idle, "b": idle, "c": idle}, 4, 2) == {"a": 2, "b": 1, "c": 1}
    # The rest is handed out in turns.
    assert allot([("a", 9), ("b", 9)], {"a": idle, "b": idle}, 8, 4) == {"a": 3, "b": 3}
    # Slow targets never take the other half.
    crowd = {f"s{n}": Load(1, True) for n in range(4)}
    assert allot([("s0", 3), ("new", 1)], {**crowd, "new": idle}, 8, 4) == {"new": 1}
    assert allot([("s0", 3), ("s9", 3)], {**crowd, "s9": Load(0, True)}, 8, 4) == {}
    assert allot([("a", 2)], {"a": idle, "b": Load(8, False)}, 8, 4) == {}


def test_what_waits_survives_a_restart(tmp_path: Path) -> None:
    with serving(lambda request: 500) as hooks:
        settings = hook_settings(tmp_path, hooks.url)
        log = commit(settings, 0, some(0, 10))
        ids = expected([log])
        with Runner(settings) as runner:
            assert not runner.drain(patience=0.5)
        assert log.forgotten == 0  # the log need not keep it
        hooks.behaviour = lambda request: 200
        with Runner(settings) as runner:
            assert runner.drain()
    assert hooks.ids == ids and len(hooks.accepted) == 10


def test_headers_are_harmless() -> None:
    assert header_value("a b/é\r\nx: y") == "a b/%C3%A9%0D%0Ax: y"


def test_an_outbox_that_is_full_makes_the_log_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twigcast.delivery.sinks.webhook.MOST_QUEUED", 15)
    hooks: Hooks
    with serving(lambda request: 500) as hooks:
        settings = hook_settings(tmp_path, hooks.url)
        for number in range(5):
            log = commit(settings, number, some(number, 10))
        ids = expected([log])
        with Runner(settings) as runner:
            assert not runner.drain(patience=1)
            [status] = runner.status()
            assert (status.waiting, status.lag) == (20, 3)
            hooks.behaviour = lambda request: 200
            assert runner.drain()
    assert hooks.ids == ids


def test_a_slow_target_does_not_keep_the_deliveries_of_others_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twigcast.delivery.sinks.webhook.MOST_QUEUED", 15)
    monkeypatch.setattr("twigcast.delivery.sinks.webhook.MOST_COUNTED", 10)
    released = threading.Event()

    def answer(request: Any) -> int:
        if request.path == "/slow":
            released.wait(20)
        return 200

    with serving(answer) as hooks:
        base = hooks.url.removesuffix("/hook")
        store = Store({who: {"webhook": {"url": f"{base}/{who}"}} for who in ("slow", "quick")})
        settings = hook_settings(tmp_path, None, timeout=30)
        for number in range(3):
            commit(settings, number, [(f"m{number}-{n}", "q", "slow") for n in range(20)])
        commit(settings, 3, [("m", "q", "quick")])
        with Runner(settings, store) as runner:
            until = time.time() + 15
            while not hooks.accepted and time.time() < until:
                time.sleep(0.02)
            first = [request.path for request in hooks.accepted]
            released.set()
            assert runner.drain()
    assert first == ["/quick"] and len(hooks.ids) == 61


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("http://127.0.0.1:99999/hook", "fine"),
        ("http://[::1", "fine"),
        (None, "hidden\r\nX: y"),
        (None, "hidden\u20ac"),
    ],
)
def test_what_cannot_be_sent_is_told_without_its_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, url: str | None, header: str
) -> None:
    """The configuration refuses these; a store may hold a URL from before it did."""
    with serving() as hooks:
        settings = hook_settings(tmp_path, hooks.url)
        sink = settings.sinks["hook"].model_copy(
            update={"url": url or hooks.url, "headers": {"Authorization": SecretStr(header)}}
        )
        settings = settings.model_copy(update={"sinks": {"hook": sink}})
        run(settings, 1)
    (letter,) = letters(settings)
    assert (letter.reason, letter.text) == ("webhook-impossible", UNSENDABLE)
    assert "hidden" not in caplog.text and "Traceback" not in caplog.text
