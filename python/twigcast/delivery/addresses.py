"""Which network addresses may be called on a subscriber's word: public ones, and what the configuration allows.

A host's name is resolved once and the address that was checked is the one that is connected to, so that a name that
changes its mind in between (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_TRANSLATED = IPv6Network("64:ff9b::/96")


class ForbiddenAddress(Exception):
    """The host is not to be called."""


def resolve(host: str, port: int, allow: Sequence[Network]) -> str:
    """An address of the host that may be called. Raises OSError if it has none, ForbiddenAddress if it has no such."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if permitted(ip_address(address.partition("%")[0]), allow):
            return address
    raise ForbiddenAddress(f"{host} is {', '.join(dict.fromkeys(addresses))}, which is no public address")


def permitted(address: Address, allow: Sequence[Network]) -> bool:
    inner = _inner(address)
    if any(each.version == network.version and each in network for each in {address, inner} for network in allow):
        return True
    return all(each.is_global and not each.is_multicast for each in (address, inner) if not _wraps(each))


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _wraps(address: Address) -> bool:
    return _inner(address) is not address
