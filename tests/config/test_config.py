from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from twigcast import Limits
from twigcast.config import (
    ConfigError,
    Directory,
    DirectorySink,
    Kafka,
    KafkaSink,
    LimitSettings,
    Pipeline,
    Table,
    WebhookSink,
    load,
    parse,
    template,
)
from twigcast.errors import OptionError, TwigcastError

SECRET = "whsec_" + "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0"
LEAST = '[streams.in]\nsource = "directory"\npath = "in"\n[sinks.out]\nkind = "stdout"\n'


def problems(text: str, **environment: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as raised:
        parse(text, environment=environment)
    return dict(raised.value.problems)


def test_the_least_there_can_be(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(LEAST)
    pipeline = load(tmp_path / "p.toml")
    stream = pipeline.streams["in"]
    assert isinstance(stream, Directory)
    assert (stream.path, stream.messages, stream.time) == (str(tmp_path / "in"), "file", "arrival")
    # defaults are relative to the file too
    assert pipeline.store.url == f"sqlite:///{tmp_path}/twigcast.db"
    assert pipeline.state.path == tmp_path / "twigcast-state"
    assert pipeline.state.log == tmp_path / "twigcast-state" / "log"
    assert (pipeline.trigger.interval, pipeline.trigger.once, pipeline.metrics.port) == (1.0, False, None)
    assert pipeline.limits.limits() == Limits()


def test_the_limits_are_those_of_messages() -> None:
    assert list(LimitSettings.model_fields) == [field.name for field in fields(Limits)]


def test_everything(tmp_path: Path) -> None:
    (tmp_path / "shop.dtd").write_text("<!ELEMENT a EMPTY>")
    text = """
        [store]
        url = "postgresql://me:${PW}@db/twigcast"
        [state]
        path = "/var/lib/twigcast"
        [trigger]
        once = true
        [limits]
        max_bytes = "16M"
        [metrics]
        port = "${PORT:-9464}"
        [archive]
        path = "archive"
        [spark]
        master = "local[2]"
        options = { "spark.driver.memory" = "2g", "spark.ui.enabled" = false }
        [publishers.shop]
        schema = "shop.dtd"
        on_invalid = "reject"
        [streams.orders]
        source = "kafka"
        bootstrap_servers = ["a:1", "b:2"]
        topic = "orders"
        publisher = "shop"
        time = "/o:order/@at"
        namespaces = { o = "urn:o" }
        [streams.old]
        source = "table"
        path = "s3a://bucket/old"
        format = "json"
        [streams.many]
        source = "directory"
        path = "many"
        messages = "records"
        record = "order"
        [streams.tcp]
        source = "socket"
        port = 9
        [streams.tick]
        source = "rate"
        [sinks.tree]
        kind = "directory"
        path = "out"
        layout = "jsonl"
        max_age = "2 days"
        [sinks.lake]
        kind = "parquet"
        path = "lake"
        [sinks.bus]
        kind = "kafka"
        bootstrap_servers = "a:1"
        topic = "to.{subscriber}"
        [sinks.hooks]
        kind = "webhook"
        secret = "${HOOK}"
        timeout = "500 ms"
        allow = ["127.0.0.0/8", "::1"]
        [sinks.screen]
        kind = "stdout"
        [[routes]]
        subscribers = ["a*"]
        sinks = ["hooks", "lake"]
        [[routes]]
        sinks = ["tree"]
    """
    pipeline = parse(text, folder=tmp_path, environment={"PW": "p@ss/word", "HOOK": SECRET})
    assert pipeline.store.url == "postgresql+psycopg://me:p%40ss%2Fword@db/twigcast"
    kafka, table = pipeline.streams["orders"], pipeline.streams["old"]
    assert isinstance(kafka, Kafka) and kafka.bootstrap_servers == "a:1,b:2"
    assert isinstance(table, Table) and table.path == "s3a://bucket/old"
    tree, hooks, bus = pipeline.sinks["tree"], pipeline.sinks["hooks"], pipeline.sinks["bus"]
    assert isinstance(tree, DirectorySink) and (tree.path, tree.max_age) == (tmp_path / "out", 172_800)
    assert isinstance(hooks, WebhookSink) and hooks.secret is not None
    assert (hooks.secret.get_secret_value(), hooks.timeout) == (SECRET, 0.5)
    assert [str(network) for network in hooks.allow] == ["127.0.0.0/8", "::1/128"]
    assert isinstance(bus, KafkaSink)
    assert pipeline.publishers["shop"].schema_file == tmp_path / "shop.dtd"
    assert pipeline.publishers["shop"].schema_kind == "dtd"
    assert pipeline.spark.options == {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    assert (pipeline.metrics.port, pipeline.limits.limits().max_bytes) == (9464, 16 << 20)
    assert [route.sinks for route in pipeline.routes] == [["hooks", "lake"], ["tree"]]
    for secret in (SECRET, "p@ss", "p%40ss"):
        assert secret not in repr(pipeline) and secret not in str(pipeline)


def test_nothing_at_all() -> None:
    assert problems("") == {"streams": "is missing", "sinks": "is missing"}
    assert problems(LEAST + "[streams2]\n") == {"streams2": "there is no such key; did you mean 'streams'?"}
    assert "at least one" in problems('streams = {}\n[sinks.out]\nkind = "stdout"')["streams"]


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ('[streams.a]\nsource = "kafak"', "streams.a.source", "did you mean 'kafka'?"),
        ('[streams.a]\npath = "x"', "streams.a.source", "directory, kafka, table, socket, rate"),
        ('[streams.a]\nsource = "kafka"\ntopic = "t"', "streams.a.bootstrap_servers", "is missing"),
        ('[streams.a]\nsource = "directory"\npath = "x"\nmesages = "file"', "streams.a.mesages", "'messages'"),
        (
            '[streams.a]\nsource = "directory"\npath = "x"\nmessages = "files"',
            "streams.a.messages",
            "'file', 'lines' or",
        ),
        ('[streams.a]\nsource = "directory"\npath = "x"\nmessages = "records"', "streams.a.record", "is missing"),
        ('[streams.a]\nsource = "directory"\npath = "x"\nrecord = "r"', "streams.a.record", "goes with"),
        (
            '[streams.a]\nsource = "directory"\npath = "x"\nmax_files = 0',
            "streams.a.max_files",
            "greater than 0, not 0",
        ),
        ('[streams.a]\nsource = "directory"\npath = "x"\ntime = "now"', "streams.a.time", "'arrival', 'transport' or"),
        ('[streams.a]\nsource = "directory"\npath = "x"\ntime = "/a[["', "streams.a.time", "^"),
        ('[streams.a]\nsource = "directory"\npath = "x"\ntime = "/p:a"', "streams.a.time", "not declared"),
        ('[streams.a]\nsource = "directory"\npath = "x"\ntime = "/p:a"', "streams.a.time", "the key namespaces of"),
        ('[streams.a]\nsource = "directory"\npath = "x"\nglob = "[z-a]"', "streams.a.glob", "not a set of characters"),
        ('[streams.a]\nsource = "directory"\npath = "x"\nglob = ""', "streams.a.glob", "must not be empty"),
        ('[sinks.s]\nkind = "webhook"\nallow = ["10.0.0.0/33"]', "sinks.s.allow[0]", "a network such as 10.0.0.0/8"),
        ('[metrics]\nport = "x"', "metrics.port", "must be a whole number, not 'x'"),
        ('[trigger]\nonce = "perhaps"', "trigger.once", "must be true or false, not 'perhaps'"),
        ('[routes]\nsinks = ["s"]', "routes", "begin each route with [[routes]]"),
        ('[limits]\nmax_message_results = "1G"', "limits.max_message_results", "must be a whole number from 1 to"),
        ('[streams.a]\nsource = "directory"\npath = ""', "streams.a.path", "must be a path"),
        ('[streams.a]\nsource = "table"\npath = "x"\ntime = "transport"', "streams.a.time_column", "is missing"),
        ('[streams.a]\nsource = "socket"\nport = 70000', "streams.a.port", "less than 65536"),
        ('[streams.a]\nsource = "rate"\ntemplate = "<a/>"', "streams.a.template", "{value}"),
        ('[streams.a]\nsource = "rate"\npublisher = "p"', "streams.a.publisher", "has no [publishers.p]"),
        ('[streams."a/b"]\nsource = "rate"', 'streams."a/b"', "letters, digits"),
        ('[streams._a]\nsource = "rate"', "streams._a", "starts with a letter"),
        ('[streams.correlations]\nsource = "rate"', "streams.correlations", "no stream can be named"),
        ('[streams."in.redrive"]\nsource = "rate"', 'streams."in.redrive"', "no stream can be named"),
        ("streams = 3", "streams", "must be a table"),
        ('[sinks.s]\nkind = "file"', "sinks.s.kind", "directory, parquet, kafka, webhook, stdout"),
        (
            '[sinks.s]\nkind = "directory"\npath = "x"\nlayout = "tree"',
            "sinks.s.layout",
            "'files', 'jsonl' or 'matches', not 'tree'",
        ),
        ('[sinks.s]\nkind = "directory"\npath = "s3a://b/x"', "sinks.s.path", "on this machine"),
        ('[sinks.s]\nkind = "kafka"\nbootstrap_servers = "b"\ntopic = "{user}"', "sinks.s.topic", "{subscriber}"),
        ('[sinks.s]\nkind = "webhook"\nurl = "ftp://x"', "sinks.s.url", "http://"),
        ('[sinks.s]\nkind = "webhook"\nurl = "https://u:hidden@x"', "sinks.s.url", "without a user"),
        ('[sinks.s]\nkind = "webhook"\nurl = "http://127.0.0.1:99999/hook"', "sinks.s.url", "the port is not"),
        ('[sinks.s]\nkind = "webhook"\nurl = "http://[::1"', "sinks.s.url", "the host is not"),
        ('[sinks.s]\nkind = "webhook"\nheaders = { A = "hidden\\r\\nB: c" }', "sinks.s.headers.A", "line ends"),
        ('[sinks.s]\nkind = "webhook"\nheaders = { A = "hidden€" }', "sinks.s.headers.A", "Latin-1"),
        ('[sinks.s]\nkind = "webhook"\nheaders = { "A\\nB" = "hidden" }', "sinks.s.headers", "letters, digits"),
        ('[sinks.s]\nkind = "webhook"\nheaders = { "A B" = "hidden" }', 'sinks.s.headers."A B"', "letters, digits"),
        ('[sinks.s]\nkind = "webhook"\nsecret = "hidden"', "sinks.s.secret", "whsec_"),
        ('[sinks.s]\nkind = "webhook"\nallow = ["10.0.0.1/8"]', "sinks.s.allow[0]", "network"),
        ('[sinks.s]\nkind = "stdout"\nmax_age = "soon"', "sinks.s.max_age", "3 days"),
        ('[sinks.s]\nkind = "stdout"\nbackoff = 0', "sinks.s.backoff", "greater than 0"),
        ('[[routes]]\nsinks = ["out"]\n[[routes]]\nsinks = ["x"]', "routes[1].sinks", "no sink 'x'; use one of out"),
        ("[[routes]]\nsinks = []", "routes[0].sinks", "at least one"),
        ('[publishers.p]\nschema = "none.dtd"', "publishers.p.schema", "there is no file"),
        ('[publishers.p]\nschema = "x.rng"', "publishers.p.schema", ".dtd or .xsd"),
        (
            '[publishers.p]\nschema = "x.dtd"\non_invalit = "trust"',
            "publishers.p.on_invalit",
            "did you mean 'on_invalid'?",
        ),
        ('[store]\nurl = "mysql://u:hidden@h/d"', "store.url", "postgresql://"),
        ('[state]\npaht = "x"', "state.paht", "did you mean 'path'?"),
        ('[trigger]\ninterval = "1 fortnight"', "trigger.interval", "5 minutes"),
        ('[trigger]\ninterval = "1 s"\nonce = true', "trigger.interval", "leave one of them out"),
        ('[limits]\nmax_depth = "deep"', "limits.max_depth", "64K"),
        ("[limits]\nmax_bytes = 5000000000", "limits.max_bytes", "less than"),
        ("[metrics]\nport = true", "metrics.port", "must be"),
        ('[archive]\npath = "in/archive"', "archive.path", "the stream 'in' reads"),
        ('[state]\npath = "x/../in"', "state.path", "the stream 'in' reads"),
        ('[store]\nurl = "sqlite:///in/x/store.db"', "store.url", "the stream 'in' reads"),
        ('[archive]\npath = "twigcast-state/a"', "archive.path", "lies in the state folder"),
        ('[archive]\npath = "s"\n[state]\npath = "s"', "archive.path", "lies in the state folder"),
        ('[archive]\npath = "a"\n[state]\npath = "a/s"', "archive.path", "holds the state folder"),
        ('[sinks.s]\nkind = "directory"\npath = "twigcast-state"', "sinks.s.path", "lies in the state folder"),
        ('[sinks.s]\nkind = "parquet"\npath = "a/../twigcast-state/x"', "sinks.s.path", "lies in the state folder"),
        ('[sinks.s]\nkind = "parquet"\npath = "."', "sinks.s.path", "holds the state folder"),
    ],
)
def test_mistakes_name_the_key_and_what_is_right(text: str, key: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(
            LEAST + text if not text.startswith("streams") else text + '\n[sinks.out]\nkind = "stdout"', name="p.toml"
        )
    found = dict(raised.value.problems)
    assert key in found and words in found[key], found
    assert len(found) == 1 or key == "publishers.p.on_invalit"  # there is no x.dtd either
    assert "hidden" not in str(raised.value)
    assert str(raised.value).startswith("p.toml:")


def test_all_mistakes_at_once_with_their_lines() -> None:
    text = LEAST + '[sinks.b]\nkind = "directory"\npath = "o"\nlayout = "f"\n\n[limits]\n# a comment\nmax_name = -1\n'
    with pytest.raises(ConfigError) as raised:
        parse(text.replace('path = "in"', 'pth = "in"'), name="p.toml")
    lines = sorted(line.split(": ")[0] + " " + line.split(": ")[1] for line in str(raised.value).splitlines())
    assert lines == [
        "p.toml:1 streams.in.path",
        "p.toml:13 limits.max_name",
        "p.toml:3 streams.in.pth",
        "p.toml:9 sinks.b.layout",
    ]


def test_a_route_is_told_by_its_own_line() -> None:
    with pytest.raises(ConfigError, match=r"p.toml:9: routes\[1\].sinks"):
        parse(LEAST + '[[routes]]\nsinks = ["out"]\n[[routes]]\nsinks = ["no"]\n', name="p.toml")


def test_not_toml() -> None:
    with pytest.raises(OptionError) as raised:
        parse('[store]\nurl = "x', name="p.toml")
    assert raised.value.code == "bad-toml" and "p.toml:2:" in str(raised.value) and "^" in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 20_000 + "]" * 20_000, "a = " + "{a = " * 20_000 + "1" + "}" * 20_000, "a." * 5_000 + "a = 1"],
)
def test_nested_beyond_reason(text: str) -> None:
    with pytest.raises(OptionError, match=r"p.toml: .*nested too deeply"):
        parse(text, name="p.toml")


@pytest.mark.parametrize("path", ["file", "file/below/it"])
def test_a_state_that_cannot_be_a_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file is a file" in problems(LEAST + f'[state]\npath = "{tmp_path}/{path}"\n')["state.path"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file") as raised:
        load(tmp_path / "none.toml")
    assert "twigcast init" in str(raised.value)
    with pytest.raises(OptionError, match="directory"):
        load(tmp_path)
    (tmp_path / "x.toml").write_bytes(b"\xff")
    with pytest.raises(OptionError, match="not UTF-8"):
        load(tmp_path / "x.toml")


def test_the_environment() -> None:
    text = LEAST + '[sinks.hook]\nkind = "webhook"\nurl = "https://${HOST:-example.org}/$${x}"\nsecret = "${HOOK}"\n'
    hook = parse(text, environment={"HOOK": SECRET}).sinks["hook"]
    assert isinstance(hook, WebhookSink) and hook.url == "https://example.org/${x}"
    assert problems(text) == {"sinks.hook.secret": "the environment variable HOOK is not set"}
    assert "comes the name" in problems(LEAST + '[state]\npath = "${1}"')["state.path"]
    # what came from the environment is not repeated
    assert "hidden" not in problems(LEAST + '[[routes]]\nsinks = "${X}"', X="hidden")["routes[0].sinks"]
    assert (
        "hidden" not in problems(LEAST + '[sinks.s]\nkind = "stdout"\nmax_age = "${X}"', X="hidden")["sinks.s.max_age"]
    )
    assert "hidden" not in str(problems(LEAST + '[sinks.s]\nkind = "${X}"', X="hidden"))


def test_a_password_with_strange_characters_arrives_whole() -> None:
    from sqlalchemy.engine import make_url

    text = LEAST + '[store]\nurl = "postgresql://me:${PW}@db/twigcast"\n'
    for password in ("plain", "p%40ss", "with:colon", "p@ss/word?#[x] ü"):
        url = make_url(parse(text, environment={"PW": password}).store.url)
        assert (url.host, url.password, url.database) == ("db", password, "twigcast")


def test_what_init_writes_is_right_and_shows_everything() -> None:
    text = template()
    pipeline = parse(text)
    assert list(pipeline.streams) == ["inbox"] and list(pipeline.sinks) == ["files"]
    # what is commented out is right too
    lines = []
    for line in text.splitlines():
        body = line.removeprefix("# ")
        is_key = (
            body != line
            and (body.startswith("[") or " = " in body.split("#")[0])
            and not body.startswith(("once", "record"))
        )
        lines.append(body if is_key and not _given(body, lines) else line)
    everything = "\n".join(lines)
    with pytest.raises(ConfigError) as raised:
        parse(everything, environment={"TWIGCAST_WEBHOOK_SECRET": SECRET, "TWIGCAST_DB_PASSWORD": "x"})
    missing = [key for key, _ in raised.value.problems]
    assert missing == ["publishers.shop.schema"], raised.value  # there is no such file here
    for section in Pipeline.model_fields:
        assert f"[{section}" in everything


def _given(line: str, before: list[str]) -> bool:
    """Whether the table that a line stands in has its key already."""
    key = line.split(" = ")[0]
    for other in reversed(before):
        if other.startswith("["):
            return False
        if other.split(" = ")[0] == key:
            return True
    return False


def test_settings_cannot_be_changed_by_accident() -> None:
    pipeline = parse(LEAST)
    with pytest.raises(ValueError, match="frozen"):
        pipeline.trigger.once = True  # type: ignore[misc]
    assert issubclass(ConfigError, TwigcastError)
