"""``twigcast demo``: a newsroom, a bank and a weather service through a pipeline while subscribers come and go."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twigcast.cli.output import print_table
from twigcast.cli.screen import Screen
from twigcast.errors import OptionError, TwigcastError

if TYPE_CHECKING:
    from rich.console import Console

    from twigcast.config import Pipeline
    from twigcast.spark.pipeline import Progress, Run
    from twigcast.store import Store

EPILOG = """\b
Examples:
  twigcast demo
  twigcast demo --messages 20000 --subscriptions 100000 --out /tmp/demo
"""

MARK = "twigcast-demo.json"
"""Lies in a folder the demo has made, which it may thus clear away."""
SHOWN = 110
"""Characters of a delivery that are shown."""
BATCHES = 9
"""Micro-batches to cut the messages into: enough to see it move."""

CONFIG = """\
# What `twigcast demo` ran. To go on: put messages into inbox/ and run it.
[store]
url = "sqlite:///subscriptions.db"
[state]
path = "state"
[trigger]
interval = "200 ms"
[streams.demo]
source = "directory"
path = "inbox"
max_files = {max_files}
[sinks.files]                # outbox/<subscriber>/<date>/…, a file per delivery
kind = "directory"
path = "outbox"
[sinks.table]                # a Parquet table of all deliveries
kind = "parquet"
path = "deliveries"
[[routes]]                   # people have files of their own, and are in the table like everybody
subscribers = ["ann", "bob"]
sinks = ["files", "table"]
[[routes]]
sinks = ["table"]
"""

# A transform: what ann gets is a new message.
HEADLINES = """<headlines>{
  for $n in /n:newsItem where $n//n:urgency <= 4
  return <item guid="{ $n/@guid }">{ string($n//n:headline) }</item>
}</headlines>"""

PEOPLE = {  # whose, and what they get
    "ann-extreme": ("ann", "a filter: the message"),
    "ann-headlines": ("ann", "a transform: a new message"),
    "bob-large": ("bob", "a filter: what it selects"),
}
PHASES = ("as it began", "with ann's new subscription", "without it")


@click.command(epilog=EPILOG, short_help="Run a whole pipeline on generated messages and subscriptions.")
@click.option(
    "--out", type=click.Path(path_type=Path), default="demo-out", show_default=True, help="Folder to work in."
)
@click.option("--messages", type=click.IntRange(min=3), default=3_000, show_default=True)
@click.option("--subscriptions", type=click.IntRange(min=1), default=30_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same messages.")
@click.option("--cores", type=click.IntRange(min=1), help="Cores to use.  [default: all]")
def demo(out: Path, messages: int, subscriptions: int, seed: int, cores: int | None) -> None:
    """Generate realistic messages of three vocabularies (payments, news, weather alerts; a few of them broken) and
    subscriptions to them, run them through a pipeline on this machine, add and remove a subscription meanwhile, and
    show what came out.
    """
    from rich.console import Console

    from twigcast import config
    from twigcast.cli.signals import Signals
    from twigcast.spark import session
    from twigcast.spark.pipeline import Run
    from twigcast.store import Store

    _clear(out)
    file = out / "pipeline.toml"
    file.write_text(CONFIG.format(max_files=-(-messages // BATCHES)), encoding="utf-8")
    settings = config.load(file)
    (out / "inbox").mkdir()
    with (
        Store.open(settings.store.url) as store,
        Show(Console(stderr=True), store, out / "inbox", messages, seed) as show,
        Signals() as signals,
    ):
        show.say(f"storing {subscriptions:,} subscriptions")
        _subscribe(store, out / "subscriptions.jsonl", subscriptions, seed)

        def start() -> Any:
            show.say("starting Spark")
            log = out / "spark.log"
            return signals.start(lambda: session(app="twigcast demo", cores=cores, quick=True, log=log))

        Run(settings, spark=start, watch=show.watch(), stop=show.stop)()
    show.check()
    _report(show, settings)
    click.echo(f"Messages are in {out}/inbox, results in {out}/outbox and {out}/deliveries. To go on, and look around:")
    click.echo(f"  twigcast run {file}\n  twigcast status {file}\n  twigcast dead list -c {file}")


class Show(Screen):
    """What happens while the pipeline runs: three lots of messages, and a subscriber's change of mind in between."""

    def __init__(self, console: Console, store: Store, inbox: Path, messages: int, seed: int) -> None:
        super().__init__(console)
        self.store = store
        self.inbox = inbox
        self.messages = messages
        self.seed = seed
        self.stop = threading.Event()
        self.batches: list[Progress] = []
        self.seconds = 0.0
        self.ends: list[int] = []
        """The number of messages at the end of each phase."""
        self.versions: list[int] = []
        self._arrived = threading.Condition()
        self._failed: list[BaseException] = []

    def on_start(self, run: Run) -> None:
        super().on_start(run)
        threading.Thread(target=self._perform, args=[run], daemon=True).start()

    def on_batch(self, progress: Progress) -> None:
        super().on_batch(progress)
        with self._arrived:
            self.batches.append(progress)
            self._arrived.notify_all()

    def check(self) -> None:
        if self._failed:
            raise TwigcastError("demo-failed", str(self._failed[0])) from self._failed[0]

    def _perform(self, run: Run) -> None:
        try:
            began = time.monotonic()
            share = -(-self.messages // len(PHASES))
            for phase in range(len(PHASES)):
                if phase == 1:
                    self.store.subscribe(
                        HEADLINES, id="ann-headlines", subscriber="ann",
                        namespaces={"n": "http://iptc.org/std/nar/2006-10-01/"},
                    )  # fmt: skip
                elif phase == 2:
                    self.store.unsubscribe("ann-headlines")
                self.ends.append(min(self.messages, (phase + 1) * share))
                _write_messages(self.inbox, phase * share, self.ends[-1], self.messages, self.seed)
                self._wait_for(self.ends[-1])
                self.versions.append(self.batches[-1].version)
            run.runner.drain(run.stop)
            self.seconds = time.monotonic() - began
        except BaseException as error:
            self._failed.append(error)
        finally:
            self.stop.set()

    def _wait_for(self, messages: int) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: self.batches and self.batches[-1].total.messages >= messages)


def _clear(out: Path) -> None:
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise OptionError("folder-in-use", f"{out} holds something that is not a demo", hint="give another --out")
    try:
        if out.exists():
            shutil.rmtree(out)
        out.mkdir(parents=True)
        (out / MARK).write_text("{}\n")
    except OSError as error:
        raise OptionError(
            "bad-folder", f"cannot write to {out}: {error.strerror}", hint="give another --out"
        ) from error


def _write_messages(inbox: Path, first: int, end: int, count: int, seed: int) -> None:
    from twigcast.workload.feeds import FEEDS

    feeds = list(FEEDS.values())
    every = max(2, count // 10)
    every += every % len(feeds) == 0  # so that each kind of message has its turn
    for number in range(first, end):
        feed = feeds[number % len(feeds)]
        content = feed.message(number, seed)
        # A few arrive broken, as they do.
        if number % every == every - 1:
            content = DAMAGES[number // every % len(DAMAGES)](content)
        fresh = inbox / f".{number:06d}"
        fresh.write_bytes(content)
        fresh.rename(inbox / f"{feed.name}-{number:06d}.xml")


def _insert(content: bytes, at: int, more: bytes) -> bytes:
    return content[:at] + more + content[at:]


# A message that ends too soon, a wrong end tag, a byte that is not UTF-8, and an ampersand as people write it.
DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    lambda content: content[: len(content) * 2 // 3],
    lambda content: content[: content.rindex(b"</")] + b"</end>\n",
    lambda content: _insert(content, content.index(b">", len(content) // 2) + 1, b"\xff"),
    lambda content: _insert(content, content.rindex(b"</"), b"Marks & Spencer"),
)


def _subscribe(store: Store, listed: Path, count: int, seed: int) -> None:
    """A crowd with queries made from the messages, and two people with wishes of their own."""
    from twigcast.store import import_jsonl
    from twigcast.workload.feeds import FEEDS

    with listed.open("w", encoding="utf-8") as file:
        share, rest = divmod(count, len(FEEDS))
        for place, feed in enumerate(FEEDS.values()):
            for found in feed.subscriptions(share + (place < rest), seed):
                line = {"id": found.id, "query": found.query, "namespaces": dict(found.namespaces or {})}
                file.write(json.dumps({**line, "subscriber": "crowd"}) + "\n")
    with listed.open("rb") as lines:
        import_jsonl(store, lines, name=str(listed), add_subscribers=True)
    for name in ("ann", "bob"):
        store.add_subscriber(name)
    cap, pacs = "urn:oasis:names:tc:emergency:cap:1.2", "urn:iso:std:iso:20022:tech:xsd:pacs.008.001.08"
    store.subscribe(
        '/c:alert[c:info/c:severity = "Extreme"]', id="ann-extreme", subscriber="ann", namespaces={"c": cap}
    )
    store.subscribe(
        "//p:IntrBkSttlmAmt[. > 200000]", id="bob-large", subscriber="bob", result="fragments", namespaces={"p": pacs}
    )


def _report(show: Show, settings: Pipeline) -> None:
    total = show.batches[-1].total
    busy = max(show.seconds, 1e-6)
    totals = {
        "messages": f"{total.messages:,}",
        "bytes": f"{total.bytes:,}",
        "subscriptions": f"{show.batches[-1].subscriptions:,}",
        "deliveries": f"{total.deliveries:,}",
        "dead letters": f"{total.rejects:,}",
        "throughput": f"{total.messages / busy:,.0f} messages/s, {total.deliveries / busy:,.0f} deliveries/s",
        "time": f"{busy:.1f} s once Spark was up",
    }
    print_table(("", ""), totals.items(), "Twigcast demo")
    print_table(("", "version", *PEOPLE), _changes(show, settings), "Deliveries while subscriptions change")
    print_table(("subscription", "gets", "for example"), _examples(settings), "What subscribers have")
    letters = list(_letters(settings))
    if letters:
        print_table(("message", "at", "reason", "text"), letters, "Dead letters")


def _changes(show: Show, settings: Pipeline) -> Iterator[list[str]]:
    """Yield the effect of adding and removing a subscription, as the table of deliveries has it."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    counts = {name: [0] * len(PHASES) for name in PEOPLE}
    for path in settings.sinks["table"].path.glob("date=*/*.parquet"):  # type: ignore[union-attr]
        found = pq.ParquetFile(path).read(columns=["message", "subscription"])
        for row in found.filter(pc.is_in(found["subscription"], pa.array(counts))).to_pylist():
            number = int(row["message"].rpartition("-")[2].partition(".")[0])
            phase = next(place for place, end in enumerate(show.ends) if number < end)
            counts[row["subscription"]][phase] += 1
    for place, words in enumerate(PHASES):
        yield [words, str(show.versions[place]), *(f"{of[place]:,}" for of in counts.values())]


def _examples(settings: Pipeline) -> Iterator[list[str]]:
    """Yield one delivery of each kind, as it lies in the subscriber's folder."""
    for name, (subscriber, gets) in PEOPLE.items():
        folder: Path = settings.sinks["files"].path / subscriber  # type: ignore[union-attr]
        found = min(folder.rglob(f"{name}.*.xml"), default=None)
        if found is not None:
            text = " ".join(found.read_text(encoding="utf-8").split())
            yield [name, gets, text if len(text) <= SHOWN else f"{text[:SHOWN]}…"]


def _letters(settings: Pipeline) -> Iterator[list[str]]:
    """Yield the first dead letters."""
    from twigcast.delivery.dead import DeadLetters

    with closing(DeadLetters(settings.state.dead)) as letters:
        for letter in letters.letters()[:-6:-1]:
            yield [str(letter.message), f"{letter.line}:{letter.column}", letter.reason, letter.text or ""]
