"""The guard on webhook addresses: only public addresses may be called, and networks that the configuration allows.

The decision rests on the tables below, not on Python's ``is_global``, whose answers differ between versions and which
calls several special addresses public. IPv6 is refused unless it is global unicast (``2000::/3``) or stands for an
IPv4 address, which is then checked in its place.

A host name is resolved once, and the address that was checked is the one that is connected to. A name that resolves
differently the next time (DNS rebinding) therefore gains nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

SPECIAL_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        # IANA IPv4 Special-Purpose Address Registry. Its few globally reachable entries serve no webhooks.
        "0.0.0.0/8",  # "this network"
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared address space; Alibaba Cloud's metadata service (100.100.100.200)
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link local; metadata services of most clouds (169.254.169.254)
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # IETF protocol assignments; Oracle Cloud's metadata service (192.0.0.192)
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # automatic multicast tunneling
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "240.0.0.0/4",  # reserved, and limited broadcast
        # Not in that registry.
        "224.0.0.0/4",  # multicast
        "168.63.129.16/32",  # Azure's platform service, inside public address space
    )
)
"""IPv4 networks that are not public."""

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""The only IPv6 block that IANA has allocated for global unicast. Everything outside of it is special or unassigned."""

SPECIAL_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        # IANA IPv6 Special-Purpose Address Registry, entries inside global unicast; 2002::/16 (6to4) is decoded.
        "2001::/23",  # IETF protocol assignments: Teredo, ORCHID, benchmarking, AMT and others
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
"""IPv6 networks inside global unicast that are not public."""

_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE = IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_6TO4 = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_GLOBAL_FORMS = (_MAPPED, _NAT64, _6TO4)
"""Forms that lead to the embedded IPv4 address wherever they are used, so that this address alone decides."""


class ForbiddenAddress(Exception):
    """The host has no address that may be called."""


def resolve(host: str, port: int, allow: Sequence[Network]) -> str:
    """Return an address of the host that may be called.

    Raises OSError if the host has no address, and ForbiddenAddress if it has none that may be called.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if permitted(ip_address(address.partition("%")[0]), allow):
            return address
    raise ForbiddenAddress(f"{host} is {', '.join(dict.fromkeys(addresses))}, which is not a public address")


def permitted(address: Address, allow: Sequence[Network]) -> bool:
    """Whether an address may be called: it is public, or in a network of ``allow``.

    An IPv6 address with IPv4 addresses in it must lead only to IPv4 addresses that may be called.
    """
    if _is_in(address, allow):
        return True
    if isinstance(address, IPv4Address):
        return not _is_in(address, SPECIAL_IPV4)
    embedded = embedded_ipv4(address)
    if not all(permitted(each, allow) for each in embedded):
        return False
    if _is_in(address, _GLOBAL_FORMS):
        return True
    return address in GLOBAL_UNICAST and not _is_in(address, SPECIAL_IPV6)


def embedded_ipv4(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address contains by one of the standard mappings and tunnels."""
    value = int(address)
    last = IPv4Address(value & 0xFFFF_FFFF)
    if _is_in(address, (_MAPPED, _TRANSLATED, _COMPATIBLE, _NAT64, _LOCAL_NAT64)):
        return [last]
    if address in _6TO4:
        found = [IPv4Address(value >> 80 & 0xFFFF_FFFF)]
    elif address in _TEREDO:
        # The server, and the client, whose bits are inverted.
        found = [IPv4Address(value >> 64 & 0xFFFF_FFFF), IPv4Address(~value & 0xFFFF_FFFF)]
    else:
        found = []
    if value >> 32 & 0xFFFF_FFFF in _ISATAP:
        found.append(last)
    return found


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
