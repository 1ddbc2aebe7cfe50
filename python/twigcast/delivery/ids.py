"""The id of a delivery: the same however often a message is matched again, and no other delivery's.

It is a key of (stream, message) followed by a key of the subscription, and by the number of the result where a
subscription has several for one message. Two keys side by side cost two look-ups and a concatenation per delivery,
whereas a hash over all three would cost a hash per delivery: there are few messages and many deliveries.
"""

from __future__ import annotations

from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

MESSAGE_BYTES = 12
"""2^96 keys: a billion messages share none, but for a chance of one in 10^11."""

SUBSCRIPTION_BYTES = 8
"""2^64 keys, which only the subscriptions of one message compete for."""


def message_keys(stream: str, messages: pa.Array) -> pa.Array:
    """One key per message id."""
    name = stream.encode()
    base = blake2b(len(name).to_bytes(4, "big") + name, digest_size=MESSAGE_BYTES)
    keys = []
    for message in messages.to_pylist():
        hasher = base.copy()
        hasher.update(message.encode())
        keys.append(hasher.hexdigest())
    return pa.array(keys, pa.string())


def subscription_key(id: str) -> str:
    return blake2b(id.encode(), digest_size=SUBSCRIPTION_BYTES).hexdigest()


def subscription_keys(subscriptions: pa.Array) -> pa.Array:
    """One key per subscription id; each distinct one is hashed once."""
    encoded = subscriptions.dictionary_encode()
    keys = [subscription_key(id) for id in encoded.dictionary.to_pylist()]
    return pa.array(keys, pa.string()).take(encoded.indices)


def delivery_ids(
    stream: str,
    messages: pa.Array,
    rows: pa.Array,
    subscriptions: pa.Array,
    results: pa.Array | None = None,
    keys: pa.Array | None = None,
) -> pa.Array:
    """One id per delivery of message ``messages[row]`` to a subscription; ``results`` number those of one pair,
    ``keys`` are those of the subscriptions, where they are known."""
    heads = message_keys(stream, messages).take(rows)
    tails = subscription_keys(subscriptions) if keys is None else keys
    if results is None:
        return pc.binary_join_element_wise(heads, tails, "")
    # The first result has no suffix, so that an id does not depend on whether its subscription can have several.
    numbers = pc.fill_null(results, 0)
    suffixes = pc.if_else(pc.equal(numbers, 0), "", pc.binary_join_element_wise("-", numbers.cast(pa.string()), ""))
    return pc.binary_join_element_wise(heads, tails, suffixes, "")
