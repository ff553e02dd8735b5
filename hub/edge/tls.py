"""TLS by files: a certificate with its chain, and its key."""

from __future__ import annotations

import ssl
from pathlib import Path

from hub.errors import TlsUnusable


def tls_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """What a server speaks TLS 1.2 and 1.3 with. Without ``key``, it is in the certificate's file.

    Raises ``TlsUnusable`` naming the file.
    """

    def no_password() -> str:
        raise TlsUnusable(
            f"the key in {key or certificate} is encrypted", hint="give a key without a password"
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for file in filter(None, (certificate, key)):
        try:
            file.read_bytes()
        except OSError as error:
            raise TlsUnusable(
                f"cannot read {file}: {error.strerror}",
                hint="--tls-certificate and --tls-key name PEM files",
            ) from error
    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        raise TlsUnusable(
            f"{certificate} and {key or 'the key in it'} are no pair: {error.reason or error}",
            hint="PEM files are needed: a certificate, then its chain, and the key it was made for",
        ) from error
    return context
