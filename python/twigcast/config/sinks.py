"""``[sinks.NAME]``: where deliveries go. One class per kind; common keys in ``Sink``."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, IPvAnyNetwork, SecretStr, field_validator

from twigcast.common.references import is_reference
from twigcast.config.values import Count, Duration, LocalPath, Problems, Secret, SecretOptions, Section, Servers, Size
from twigcast.store.targets import BadTarget, check_header, check_secret, check_url


class Sink(Section):
    """What every sink has. While a sink fails, its deliveries wait, and the other sinks go on."""

    max_age: Duration = 3 * 86400
    """Deliveries that could not be made for so long become dead letters."""
    backoff: Duration = 1
    """The first pause after a failure; it doubles, with jitter, up to ``max_backoff``."""
    max_backoff: Duration = 300
    digest_count: Count = 1_000
    """A digest (a subscription with ``max_delay``) goes out early when it holds so many deliveries."""

    @property
    def needs_target(self) -> bool:
        """Whether only subscribers with a target of their own can be delivered to."""
        return False


class DirectorySink(Sink):
    """``path/<subscriber>/<date>/…``: a file per delivery, or a JSON Lines file per micro-batch; with ``matches`` its
    lines have payloads, and not the messages themselves."""

    kind: Literal["directory"]
    path: LocalPath
    layout: Literal["files", "jsonl", "matches"] = "files"


class ParquetSink(Sink):
    """``path/date=…/``: Parquet files, one or more per micro-batch."""

    kind: Literal["parquet"]
    path: LocalPath
    compression: Literal["snappy", "zstd", "lz4", "gzip", "none"] = "snappy"
    """Spark's own default; ``zstd`` makes files a third smaller, and takes twice the time."""


class KafkaSink(Sink):
    """One topic keyed by subscriber; with ``{subscriber}`` in its name, a topic per subscriber."""

    kind: Literal["kafka"]
    bootstrap_servers: Servers
    topic: str = Field(min_length=1)
    options: SecretOptions = Field(default_factory=dict, repr=False)
    """For librdkafka, such as ``"security.protocol"``; values may be ``env:NAME`` or ``file:PATH``."""
    transaction_deliveries: Count = 10_000
    transaction_bytes: Size = 16 << 20
    """A batch that is larger is sent in several transactions, each with the cursor after it."""

    @field_validator("options")
    @classmethod
    def _transactions_are_the_sinks_own(cls, value: dict[str, str]) -> dict[str, str]:
        if "transactional.id" in value:
            raise Problems((("transactional.id",), "is set by the sink itself, which finds its progress by it"))
        return value

    @field_validator("topic")
    @classmethod
    def _topic_is_a_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value.replace("{subscriber}", "s")):
            raise ValueError("must be a topic's name (letters, digits, '.', '_', '-'), which may hold {subscriber}")
        return value


class WebhookSink(Sink):
    """HTTP POST, signed as Standard Webhooks has it, to ``url`` or else to the subscriber's own target."""

    kind: Literal["webhook"]
    url: str | None = None
    secret: Secret | None = None
    """``whsec_`` and base64 of 24 to 64 bytes. Write ``env:NAME`` or ``file:PATH`` and keep it elsewhere."""
    headers: dict[str, Secret] = Field(default_factory=dict)
    timeout: Duration = 15
    max_attempts: Count = 10
    concurrency: Count = 4
    """Most calls under way to one target."""
    breaker_failures: Count = 5
    """After so many failures in a row a target is left alone for ``breaker_pause``."""
    breaker_pause: Duration = 60
    allow: list[IPvAnyNetwork] = Field(default_factory=list)
    """Private, loopback and link-local networks that may be called nevertheless, such as ``"10.1.0.0/16"``."""

    @property
    def needs_target(self) -> bool:
        return self.url is None

    @field_validator("url")
    @classmethod
    def _url_is_http(cls, value: str | None) -> str | None:
        return None if value is None else check_url(value)

    @field_validator("secret")
    @classmethod
    def _secret_is_a_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not is_reference(value.get_secret_value()):
            check_secret(value.get_secret_value())
        return value

    @field_validator("headers")
    @classmethod
    def _headers_can_be_sent(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, secret in value.items():
            try:
                check_header(name, secret.get_secret_value())
            except BadTarget as error:
                raise Problems(((name,) if name.isprintable() else (), error.text)) from None
        return value


class StdoutSink(Sink):
    """JSON Lines on the standard output."""

    kind: Literal["stdout"]


AnySink = Annotated[DirectorySink | ParquetSink | KafkaSink | WebhookSink | StdoutSink, Field(discriminator="kind")]
