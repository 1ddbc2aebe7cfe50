"""News items after NewsML-G2, the story inline as XHTML: two namespaces in one message."""

from __future__ import annotations

from twigcast.workload.feeds import people
from twigcast.workload.feeds.markup import Dice, el, leaf

NAMESPACE = "http://iptc.org/std/nar/2006-10-01/"
XHTML = "http://www.w3.org/1999/xhtml"
PREFIX = "n"

_TOPICS = ["politics", "sport", "economy", "weather", "culture", "science", "crime", "health"]
_CONCEPTS = ["cpnat:person", "cpnat:organisation", "cpnat:geoArea", "cpnat:event", "cpnat:poi"]


def message(d: Dice, number: int) -> str:
    body = el(
        "newsItem",
        el("catalogRef", href="https://example.org/catalog.xml"),
        d.maybe(0.6, lambda: _rights(d)),
        _item_meta(d),
        _content_meta(d),
        d.maybe(0.04, lambda: _part(d)),
        d.some(0, 2, lambda: _assert(d)),
        d.maybe(0.03, lambda: el("derivedFrom", leaf("name", "Wire copy"), qcode=f"src:{d.digits(4)}")),
        el("contentSet", _content(d)),
        xmlns=NAMESPACE,
        guid=f"tag:example.org,2026:{number}",
        version=d.between(1, 9),
        standard="NewsML-G2",
        xml__lang=d.pick(("en", "de", "fr")),
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _sentence(d: Dice, least: int = 6, most: int = 18) -> str:
    return " ".join(d.pick(people.WORDS) for _ in range(d.between(least, most))).capitalize()


def _person(d: Dice) -> str:
    return f"{d.pick(people.FIRST)} {d.pick(people.LAST)}"


def _rights(d: Dice) -> str:
    return el(
        "rightsInfo",
        el("copyrightHolder", leaf("name", "Example Press")),
        leaf("copyrightNotice", "© 2026 Example Press"),
        d.maybe(0.1, lambda: leaf("usageTerms", "Not for use before noon", xml__lang="en")),
        d.maybe(0.02, lambda: el("accountable", leaf("name", _person(d)))),
    )


def _item_meta(d: Dice) -> str:
    return el(
        "itemMeta",
        el("itemClass", qcode=f"ninat:{d.pick(('text', 'picture', 'video', 'graphic'))}"),
        el("provider", qcode="prov:EX"),
        leaf("versionCreated", d.moment().isoformat()),
        d.maybe(0.03, lambda: leaf("embargoed", d.moment().isoformat())),
        el("pubStatus", qcode="stat:usable"),
        d.maybe(0.05, lambda: leaf("edNote", _sentence(d, 4, 9))),
        d.maybe(0.02, lambda: el("signal", qcode="sig:correction")),
        d.maybe(0.03, lambda: el("link", leaf("title", _sentence(d, 3, 6)), rel="irel:seeAlso", residref=d.digits(6))),
        d.maybe(0.02, lambda: el("hopHistory", el("hop", leaf("timestamp", d.moment().isoformat()), seq=1))),
    )


def _content_meta(d: Dice) -> str:
    topic = d.pick(_TOPICS)
    city, country = d.pick(people.CITIES)
    return el(
        "contentMeta",
        leaf("urgency", d.between(1, 8)),
        leaf("contentCreated", d.moment().isoformat()),
        d.maybe(0.6, lambda: el("located", leaf("name", city), _broader(country, "country"), qcode=f"city:{city}")),
        el("creator", leaf("name", _person(d)), d.maybe(0.03, lambda: _affiliation(d))),
        d.maybe(0.03, lambda: el("contributor", leaf("name", _person(d)), leaf("note", "Additional reporting"))),
        el("language", tag="en"),
        d.maybe(0.1, lambda: el("genre", leaf("name", d.pick(("Analysis", "Profile", "Interview"))), qcode="g:1")),
        d.maybe(0.02, lambda: el("audience", qcode="aud:adult")),
        d.some(1, 3, lambda: _subject(d, topic)),
        leaf("slugline", f"{topic.upper()}-{city.upper()}"),
        leaf("headline", _sentence(d, 4, 9)),
        d.maybe(0.4, lambda: leaf("dateline", f"{city.upper()}, {d.moment():%d %b}")),
        d.maybe(0.4, lambda: leaf("by", f"By {_person(d)}")),
        d.maybe(0.1, lambda: leaf("creditline", "EX/Agency")),
        d.maybe(0.5, lambda: leaf("description", _sentence(d))),
    )


def _broader(name: str, kind: str) -> str:
    return el("broader", leaf("name", name), qcode=f"{kind}:{name}")


def _affiliation(d: Dice) -> str:
    return el("organisationDetails", el("founded"), el("location", leaf("name", d.pick(people.CITIES)[0])))


def _subject(d: Dice, topic: str) -> str:
    return el(
        "subject",
        leaf("name", topic),
        d.maybe(0.2, lambda: _broader("general", "medtop")),
        d.maybe(0.03, lambda: el("bag", el("bit", qcode=f"subj:{d.digits(5)}", significance=d.between(1, 100)))),
        d.maybe(0.02, lambda: el("sameAs", qcode=f"wd:Q{d.digits(5)}")),
        type="cpnat:abstract",
        qcode=f"medtop:{d.digits(8)}",
    )


def _part(d: Dice) -> str:
    return el(
        "partMeta",
        el("timeDelim", start=d.between(0, 10), end=d.between(11, 99), timeunit="tu:seconds"),
        leaf("description", _sentence(d)),
        d.maybe(0.3, lambda: el("icon", href="https://example.org/i.jpg")),
        partid=f"p{d.below(9)}",
        seq=1,
    )


def _assert(d: Dice) -> str:
    kind = d.pick(_CONCEPTS)
    city, country = d.pick(people.CITIES)
    details = {
        "cpnat:person": lambda: el("personDetails", leaf("born", d.between(1940, 2004)), _affiliated(d)),
        "cpnat:organisation": lambda: el("organisationDetails", leaf("founded", d.between(1850, 2020)), _instrument(d)),
        "cpnat:geoArea": lambda: el(
            "geoAreaDetails", el("position", latitude=d.between(-60, 70), longitude=d.below(180))
        ),
        "cpnat:event": lambda: el("eventDetails", el("dates", leaf("start", d.moment().date())), _registration(d)),
        "cpnat:poi": lambda: el("POIDetails", el("address", leaf("locality", city), leaf("country", country))),
    }
    return el(
        "assert",
        leaf("name", d.pick(people.FIRMS) if kind == "cpnat:organisation" else _person(d)),
        el("type", qcode=kind),
        d.maybe(0.1, details[kind]),
        d.maybe(0.1, lambda: _broader(country, "country")),
        qcode=f"c:{d.digits(6)}",
    )


def _affiliated(d: Dice) -> str:
    return d.maybe(0.4, lambda: el("affiliation", leaf("name", d.pick(people.FIRMS)), type="orgaffil:member"))


def _instrument(d: Dice) -> str:
    return d.maybe(0.5, lambda: el("hasInstrument", symbol=f"EX{d.digits(2)}", market="XETR"))


def _registration(d: Dice) -> str:
    return d.maybe(0.3, lambda: leaf("registration", "Press desk")) + d.maybe(
        0.2, lambda: el("location", leaf("name", "Hall"))
    )


def _content(d: Dice) -> str:
    if d.chance() < 0.1:
        return d.some(1, 3, lambda: _remote(d))
    head = el("head", leaf("title", _sentence(d, 4, 8)))
    body = el("body", leaf("h1", _sentence(d, 4, 8)), d.some(3, 9, lambda: _block(d)))
    return el("inlineXML", el("html", head, body, xmlns=XHTML), contenttype="application/xhtml+xml")


def _remote(d: Dice) -> str:
    return el(
        "remoteContent",
        d.maybe(0.3, lambda: leaf("channel", d.between(1, 4), chnlid="a")),
        d.maybe(0.3, lambda: leaf("altId", d.digits(8), type="idtype:internal")),
        href=f"https://example.org/media/{d.digits(8)}.jpg",
        size=d.between(20_000, 900_000),
        contenttype="image/jpeg",
    )


def _block(d: Dice) -> str:
    dice = d.chance()
    if dice < 0.9:
        return el(
            "p", _sentence(d), ". ", d.maybe(0.2, lambda: leaf("a", _sentence(d, 2, 4), href="https://example.org/"))
        )
    if dice < 0.94:
        return el("ul", d.some(2, 4, lambda: leaf("li", _sentence(d, 3, 7))))
    if dice < 0.96:
        return el("blockquote", leaf("p", _sentence(d)), leaf("cite", _person(d)))
    if dice < 0.98:
        return el("figure", el("img", src="photo.jpg", alt="Photo"), leaf("figcaption", _sentence(d, 4, 8)))
    row = el("tr", leaf("td", d.between(1, 99)), leaf("td", d.between(1, 99)))
    return el("table", el("tbody", row, row), d.maybe(0.3, lambda: leaf("caption", "Results")))
