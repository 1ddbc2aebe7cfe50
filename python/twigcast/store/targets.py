"""Where a subscriber wants deliveries, by kind of sink. A sink of that kind uses it instead of its own setting."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from twigcast.common.references import is_reference
from twigcast.errors import OptionError

KEYS = {"webhook": ("url", "secret"), "kafka": ("topic",)}
_URL_HINT = "such as https://example.org:8443/hook or http://[::1]:8080/hook"


def check_targets(targets: Mapping[str, Mapping[str, str]], *, references: bool = False) -> dict[str, dict[str, str]]:
    """Return targets as they are stored; raises OptionError, which never shows a secret.

    ``references`` allows a secret to be ``env:NAME`` or ``file:PATH``. Only for targets that an operator gives: see
    :mod:`twigcast.common.references`.
    """
    for kind, settings in targets.items():
        if kind not in KEYS:
            raise OptionError("unknown-target", f"there is no target {kind!r}", hint=f"the targets: {', '.join(KEYS)}")
        unknown = [key for key in settings if key not in KEYS[kind]]
        if unknown or not all(isinstance(value, str) for value in settings.values()):
            text = f"the target {kind!r} has strings for {', '.join(KEYS[kind])}"
            raise OptionError("bad-target", text)
    webhook = targets.get("webhook")
    if webhook is not None:
        check_url(webhook.get("url", ""))
        if "secret" in webhook and not (references and is_reference(webhook["secret"])):
            if is_reference(webhook["secret"]):
                text = "a secret that is env:NAME or file:PATH can be set only by an operator"
                raise OptionError("bad-secret", text, hint="twigcast subscriber set --secret-from sets one")
            check_secret(webhook["secret"])
    if "kafka" in targets and not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", targets["kafka"].get("topic", "")):
        raise OptionError("bad-target", "a topic's name is made of letters, digits, '.', '_' and '-'")
    return {kind: dict(settings) for kind, settings in targets.items()}


def check_url(url: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+([/?#]\S*)?", url):
        raise BadTarget("bad-target", "a webhook's URL is an http:// or https:// URL without a user or password in it")
    if re.search(r"[\x00-\x20\x7f]", url):
        raise BadTarget("bad-target", "a webhook's URL has no control characters in it")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # its text repeats parts of the URL, or speaks of IPv6 where there is none
        port_is_wrong = re.match(r"[a-z]+://(\[[^\]]*\]|[^/?#:\[\]]+):", url)
        what = "port is not a number from 1 to 65535" if port_is_wrong else "host is not a name or an address"
        raise BadTarget("bad-target", f"the {what} in this webhook's URL", hint=_URL_HINT) from None
    if not host or port == 0:
        what = "port is not a number from 1 to 65535" if host else "host is missing"
        raise BadTarget("bad-target", f"the {what} in this webhook's URL", hint=_URL_HINT)
    return url


def check_header(name: str, value: str) -> None:
    """What can be sent as a header; the error does not show the value, which may be a secret."""
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        text = f"a header's name is made of letters, digits and -, not {name!r}"
        raise BadTarget("bad-header", text)
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
        raise BadTarget("bad-header", "a header's value has no line ends or control characters in it")
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise BadTarget("bad-header", "a header's value has no characters beyond Latin-1 (ISO 8859-1)") from None


def check_secret(secret: str) -> bytes:
    """The key that a Standard Webhooks secret stands for."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not 24 <= len(key) <= 64:
        hint = "make one with: echo whsec_$(openssl rand -base64 32)"
        raise BadTarget("bad-secret", "a webhook's secret is 'whsec_' and 24 to 64 bytes in base64", hint=hint)
    return key


class BadTarget(OptionError, ValueError):
    """Also a ValueError, which is what pydantic collects."""
