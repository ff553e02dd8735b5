"""https by certificate files made here, through a hub in a process of its own."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
import ssl
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hub.client import Hub, HubUnreachable
from hub.edge.tls import tls_context
from hub.errors import TlsUnusable
from hub.settings import Settings, SettingsInvalid
from tests.hub.served import served


class Made:
    """A certificate for loopback that signs itself, and its key, as PEM files."""

    def __init__(self, folder: Path, password: bytes | None = None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "envhub test")])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        hidden = (
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption()
        )
        self.key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden
        )
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)
        folder.mkdir(exist_ok=True)
        self.key, self.certificate = folder / "key.pem", folder / "certificate.pem"
        self.key.write_bytes(self.key_pem)
        self.certificate.write_bytes(self.certificate_pem)


def test_a_hub_speaks_https_with_the_files_it_is_given(tmp_path: Path) -> None:
    made = Made(tmp_path / "tls")
    options = ("--tls-certificate", str(made.certificate), "--tls-key", str(made.key))
    with served(tmp_path / "data", *options) as hub:
        assert hub.address.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(made.certificate))
        with httpx2.Client(base_url=hub.address, verify=trusted) as client:
            made_episode = client.post("/v1/episodes", json={"environment": "shop"}).json()
            address = f"/episodes/{made_episode['id']}/mcp"
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert client.post(address, json=ping).json()["result"] == {}
            urls = json.dumps(made_episode)
            assert "http://" not in urls
        with pytest.raises(httpx2.ConnectError), httpx2.Client() as stranger:
            stranger.get(hub.address)  # who does not know the certificate trusts nobody
        with pytest.raises(HubUnreachable, match="SSL_CERT_FILE"):
            Hub(hub.address, patience_seconds=0).environments()
        port = int(hub.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")
        assert hub.stop() == 0


def test_certificate_and_key_may_be_one_file(tmp_path: Path) -> None:
    made = Made(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(made.certificate_pem + made.key_pem)
    assert tls_context(both, None).minimum_version is ssl.TLSVersion.TLSv1_2


def test_files_that_will_not_do_are_named(tmp_path: Path) -> None:
    made, other = Made(tmp_path / "one"), Made(tmp_path / "two", password=b"secret")
    with pytest.raises(TlsUnusable, match=r"cannot read .*gone\.pem"):
        tls_context(tmp_path / "gone.pem", made.key)
    with pytest.raises(TlsUnusable, match=r"two/key\.pem is encrypted"):
        tls_context(other.certificate, other.key)
    with pytest.raises(TlsUnusable, match="no pair"):
        tls_context(other.certificate, made.key)
    with pytest.raises(TlsUnusable, match="no pair"):
        tls_context(made.key, made.key)
    with pytest.raises(SettingsInvalid, match="without a tls_certificate"):
        Settings.from_environment({}, tls_key=made.key, data_dir=tmp_path)


def test_addresses_follow_the_settings(tmp_path: Path) -> None:
    certificate = {"ENVHUB_TLS_CERTIFICATE": str(tmp_path / "c.pem"), "HOME": str(tmp_path)}
    assert Settings.from_environment(certificate).address == "https://127.0.0.1:8765"
    assert Settings.from_environment({"HOME": "/", "ENVHUB_HOST": "::1"}).address == (
        "http://[::1]:8765"
    )
