"""Weather alerts after the OASIS Common Alerting Protocol 1.2, written with a prefix as some offices do."""

from __future__ import annotations

from twigcast.workload.feeds import people
from twigcast.workload.feeds.markup import Dice, el, leaf

NAMESPACE = "urn:oasis:names:tc:emergency:cap:1.2"
PREFIX = "c"

_EVENTS = ["Flood Warning", "Gale Warning", "Heat Advisory", "Snow Squall", "Tornado Watch", "Dense Fog", "Test"]


def message(d: Dice, number: int) -> str:
    body = el(
        "cap:alert",
        leaf("cap:identifier", f"urn:oid:2.49.0.1.840.{number}"),
        leaf("cap:sender", "w-alerts@example.org"),
        leaf("cap:sent", d.moment().isoformat()),
        leaf("cap:status", d.pick(("Actual", "Actual", "Actual", "Exercise", "Test"))),
        leaf("cap:msgType", d.pick(("Alert", "Update", "Cancel"))),
        d.maybe(0.3, lambda: leaf("cap:source", "Automatic station")),
        leaf("cap:scope", "Public"),
        d.maybe(0.02, lambda: leaf("cap:restriction", "Harbour authorities")),
        d.maybe(0.02, lambda: leaf("cap:addresses", "desk@example.org")),
        d.some(0, 2, lambda: leaf("cap:code", f"IPAWSv{d.between(1, 2)}.0")),
        d.maybe(0.03, lambda: leaf("cap:note", "Drill only; no action")),
        d.maybe(0.1, lambda: leaf("cap:references", f"w-alerts@example.org,{d.digits(8)},2026-01-05T06:00:00Z")),
        d.maybe(0.02, lambda: leaf("cap:incidents", f"storm-{d.digits(3)}")),
        d.some(1, 2, lambda: _info(d)),
        xmlns__cap=NAMESPACE,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _info(d: Dice) -> str:
    event = d.pick(_EVENTS)
    onset = d.moment()
    city, country = d.pick(people.CITIES)
    return el(
        "cap:info",
        leaf("cap:language", d.pick(("en-US", "de-DE", "fr-FR"))),
        leaf("cap:category", d.pick(("Met", "Met", "Geo", "Safety"))),
        leaf("cap:event", event),
        d.maybe(0.5, lambda: leaf("cap:responseType", d.pick(("Shelter", "Prepare", "Avoid", "Monitor")))),
        leaf("cap:urgency", d.pick(("Immediate", "Expected", "Future"))),
        leaf("cap:severity", d.pick(("Extreme", "Severe", "Moderate", "Minor"))),
        leaf("cap:certainty", d.pick(("Observed", "Likely", "Possible"))),
        d.maybe(0.02, lambda: leaf("cap:audience", "Mariners")),
        d.maybe(0.3, lambda: el("cap:eventCode", _pair("SAME", event[:3].upper()))),
        leaf("cap:effective", onset.isoformat()),
        d.maybe(0.6, lambda: leaf("cap:onset", onset.isoformat())),
        leaf("cap:expires", d.moment().isoformat()),
        leaf("cap:senderName", f"Weather office {city}"),
        leaf("cap:headline", f"{event} for {city} & surroundings"),
        leaf("cap:description", " ".join(d.pick(people.WORDS) for _ in range(d.between(20, 60)))),
        d.maybe(0.7, lambda: leaf("cap:instruction", "Stay away from the water.")),
        d.maybe(0.05, lambda: leaf("cap:web", "https://example.org/alerts")),
        d.maybe(0.03, lambda: leaf("cap:contact", f"+1-555-{d.digits(4)}")),
        d.some(0, 3, lambda: el("cap:parameter", _pair(d.pick(("WMOHEADER", "UGC", "VTEC")), d.digits(6)))),
        d.maybe(0.05, lambda: _resource(d)),
        d.some(1, 3, lambda: _area(d, city, country)),
    )


def _pair(name: str, value: str) -> str:
    return leaf("cap:valueName", name) + leaf("cap:value", value)


def _resource(d: Dice) -> str:
    return el(
        "cap:resource",
        leaf("cap:resourceDesc", "Radar image"),
        leaf("cap:mimeType", "image/png"),
        d.maybe(0.5, lambda: leaf("cap:size", d.between(10_000, 900_000))),
        leaf("cap:uri", f"https://example.org/radar/{d.digits(6)}.png"),
        d.maybe(0.2, lambda: leaf("cap:derefUri", "iVBORw0KGgo=")),
        d.maybe(0.3, lambda: leaf("cap:digest", d.hexes(40))),
    )


def _area(d: Dice, city: str, country: str) -> str:
    def point() -> str:
        return f"{d.between(-60, 70)}.{d.digits(2)},{d.between(-179, 179)}.{d.digits(2)}"

    return el(
        "cap:area",
        leaf("cap:areaDesc", f"{city}, {country}"),
        d.maybe(0.4, lambda: leaf("cap:polygon", " ".join(point() for _ in range(d.between(4, 9))))),
        d.maybe(0.03, lambda: leaf("cap:circle", f"{point()} {d.between(1, 80)}")),
        d.some(0, 2, lambda: el("cap:geocode", _pair("UGC", f"{country}Z{d.digits(3)}"))),
        d.maybe(
            0.02, lambda: leaf("cap:altitude", d.between(0, 9_000)) + d.maybe(0.5, lambda: leaf("cap:ceiling", 30_000))
        ),
    )
