"""The guard on webhook addresses, against a table of every special class of addresses."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

import pytest

from twigcast.delivery.addresses import ForbiddenAddress, embedded_ipv4, permitted, resolve

PUBLIC = "8.8.8.8 1.1.1.1 168.63.129.17 192.0.1.1 198.20.0.1 223.255.255.255 100.128.0.1 172.32.0.1"
PUBLIC += " 2606:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1"
PUBLIC += " 2a00:1450::200:5efe:808:808"

FORBIDDEN = {
    "this network": "0.0.0.0 0.1.2.3",
    "private use": "10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1",
    "shared address space": "100.64.0.1 100.127.255.255",
    "loopback": "127.0.0.1 127.255.255.255 ::1",
    "link local": "169.254.1.1 fe80::1 febf::1",
    "site local": "fec0::1 feff::1",
    "unique local": "fc00::1 fd12:3456::1",
    "protocol assignments": "192.0.0.1 192.0.0.9 192.0.0.171 2001::1 2001:1::1 2001:1ff::1",
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1 3fff:fff::1",
    "AS112 and AMT": "192.31.196.1 192.52.193.1 192.175.48.1 2620:4f:8000::1 2001:3::1 2001:4:112::1",
    "6to4 relays": "192.88.99.1",
    "benchmarking": "198.18.0.1 198.19.255.255 2001:2::1",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "reserved": "240.0.0.1 255.255.255.255 4000::1 8000::1 ::2",
    "unspecified": "::",
    "discard only": "100::1 100:0:0:1::1",
    "segment routing": "5f00::1",
    "ORCHID and drone ids": "2001:10::1 2001:20::1 2001:30::1",
    "cloud metadata": "169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254",
    "IPv4-mapped": "::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:168.63.129.16",
    "IPv4-translated": "::ffff:0:10.0.0.1 ::ffff:0:8.8.8.8",
    "IPv4-compatible": "::10.0.0.1 ::127.0.0.1 ::8.8.8.8",
    "NAT64": "64:ff9b::a00:1 64:ff9b::a9fe:a9fe 64:ff9b::127.0.0.1",
    "local NAT64": "64:ff9b:1::808:808 64:ff9b:1::a00:1 64:ff9b:1:ffff::1",
    "6to4": "2002:a00:1::1 2002:7f00:1::1 2002:a9fe:a9fe::1 2002:808:808::5efe:a00:1",
    "Teredo": "2001:0:a00:1::1 2001:0:808:808:0:0:f5ff:fffe 2001:0:808:808:0:0:f7f7:f7f7",
    "ISATAP": "2a00:1450::5efe:10.0.0.1 2a00:1450::200:5efe:127.0.0.1 fe80::5efe:8.8.8.8 2a00::5efe:169.254.169.254",
}


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses_may_be_called(address: str) -> None:
    assert permitted(ip_address(address), ())


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_special_addresses_may_not_be_called(kind: str) -> None:
    for address in FORBIDDEN[kind].split():
        assert not permitted(ip_address(address), ()), address


def test_allowed_networks() -> None:
    assert permitted(ip_address("10.1.2.3"), [ip_network("10.1.0.0/16")])
    assert permitted(ip_address("::ffff:10.1.2.3"), [ip_network("10.1.0.0/16")])
    assert permitted(ip_address("fd12::1"), [ip_network("fd12::/16")])
    assert not permitted(ip_address("10.2.2.3"), [ip_network("10.1.0.0/16"), ip_network("fc00::/7")])
    # Forms that lead to IPv4 only in some networks must be allowed themselves.
    assert not permitted(ip_address("::10.1.2.3"), [ip_network("10.1.0.0/16")])
    assert permitted(ip_address("64:ff9b:1::a01:203"), [ip_network("64:ff9b:1::/48")])


def test_embedded_addresses() -> None:
    def found(address: str) -> list[str]:
        return [str(each) for each in embedded_ipv4(IPv6Address(address))]

    assert found("2001:0:808:404:0:0:f5ff:fffe") == ["8.8.4.4", "10.0.0.1"]
    assert found("2002:808:808::5efe:a00:1") == ["8.8.8.8", "10.0.0.1"]
    assert found("::ffff:0:1.2.3.4") == found("::1.2.3.4") == found("64:ff9b::1.2.3.4") == ["1.2.3.4"]
    assert found("2a00::1") == []


def test_the_address_that_was_checked_is_the_one_that_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*addresses: str) -> Any:
        return lambda host, port, **_: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", lookup("10.0.0.1", "8.8.8.8"))
    assert resolve("example.org", 80, ()) == "8.8.8.8"
    monkeypatch.setattr(socket, "getaddrinfo", lookup("10.0.0.1", "fe80::1%eth0"))
    with pytest.raises(ForbiddenAddress, match=r"example.org is 10.0.0.1, fe80::1%eth0, which is not a public address"):
        resolve("example.org", 80, ())
