"""Signatures of archives, in the format of minisign (https://jedisct1.github.io/minisign/).

What is signed here is verified by ``minisign -V``, and the other way round: Ed25519 over BLAKE2b of
the file, in ``FILE.minisig``. Secret keys are kept without a password, as ``minisign -G -W`` does.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from environments.errors import AgentError, PackInvalid

SUFFIX: Final = ".minisig"
MAX_SIGNATURE_BYTES: Final = 8192

_KEY, _PREHASHED = b"Ed", b"ED"
_ID_BYTES, _SIGNATURE_BYTES = 8, 64
_COMMENT, _TRUSTED = "untrusted comment: ", "trusted comment: "
_PUBLIC_BYTES = len(_KEY) + _ID_BYTES + 32
_SECRET_HEAD = _KEY + b"\0\0" + b"B2" + bytes(32 + 8 + 8)  # no password, so nothing derived


class KeyInvalid(AgentError):
    """A key that signs archives, or its public half, cannot be read."""

    code = "KEY_INVALID"


class PackNotTrusted(PackInvalid):
    """A pack is not signed, or by no key that is trusted here, or the signature is another's."""

    code = "PACK_NOT_TRUSTED"


@dataclasses.dataclass(frozen=True, slots=True)
class PublicKey:
    """Verifies archives. ``text`` is what ``minisign -P`` takes."""

    id: bytes
    key: bytes

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """From base64, or from the content of a key file. Raises ``KeyInvalid``."""
        lines = text.strip().splitlines() or [""]
        data = _decode(lines[-1])
        if len(lines) > 2 or data is None or len(data) != _PUBLIC_BYTES or data[:2] != _KEY:
            # its text is not told: it may be a secret key's
            raise KeyInvalid(
                "what was given is no public key", hint="minisign's begin with RW, 56 characters"
            )
        return cls(data[2 : 2 + _ID_BYTES], data[2 + _ID_BYTES :])

    @classmethod
    def given(cls, text: str) -> PublicKey:
        """From base64, or from the file of that name. Raises ``KeyInvalid``."""
        with suppress(KeyInvalid):
            return cls.parse(text)
        path, found = Path(text), False
        with suppress(OSError):  # it may be too long for a name
            found = path.is_file()
        try:
            return cls.parse(_read(path) if found else "")
        except KeyInvalid as error:
            what = f"{text!r} is no public key"
            if not found:
                what = f"{text[:60]!r} is no public key, nor is there such a file"
            raise KeyInvalid(what, hint=error.hint) from None

    @property
    def text(self) -> str:
        return base64.b64encode(_KEY + self.id + self.key).decode()

    @property
    def name(self) -> str:
        """The key's id as minisign prints it."""
        return self.id[::-1].hex().upper()

    def verify(self, content: bytes, signature: str) -> str:
        """The trusted comment of a signature of ``content``. Raises ``PackNotTrusted``."""
        parsed = _Signature.parse(signature)
        if parsed.key_id != self.id:
            raise PackNotTrusted(f"it is signed by key {_name(parsed.key_id)}, not by {self.name}")
        key = Ed25519PublicKey.from_public_bytes(self.key)
        try:
            key.verify(parsed.signature, hashlib.blake2b(content).digest())
            key.verify(parsed.over_all, parsed.signature + parsed.comment.encode())
        except InvalidSignature:
            raise PackNotTrusted(
                f"the signature by key {self.name} is not this file's",
                hint="the file or its signature was changed on the way",
            ) from None
        return parsed.comment


@dataclasses.dataclass(frozen=True, slots=True)
class SecretKey:
    """Signs archives."""

    id: bytes
    seed: bytes = dataclasses.field(repr=False)

    @classmethod
    def generate(cls) -> SecretKey:
        """A key by the system's randomness."""
        return cls(secrets.token_bytes(_ID_BYTES), secrets.token_bytes(32))

    @classmethod
    def load(cls, path: Path) -> SecretKey:
        """From a file as ``save`` or ``minisign -G -W`` writes it. Raises ``KeyInvalid``."""
        data = _decode((_read(path).strip().splitlines() or [""])[-1]) or b""
        body = data[len(_SECRET_HEAD) :]
        if data[:6] == _KEY + b"Sc" + b"B2":
            raise KeyInvalid(
                f"{path} is kept under a password", hint="make one without: envhub pack keygen"
            )
        key = cls(body[:8], body[8:40])
        if data[:6] != _SECRET_HEAD[:6] or len(body) != 104 or body != key._body():
            raise KeyInvalid(f"{path} is no secret key", hint="make one: envhub pack keygen")
        return key

    def save(self, path: Path) -> Path:
        """Write the key to ``path`` (mode 0600) and its public half beside it; gives the latter's
        path. Raises ``KeyInvalid`` where either is there, and for what a public half is called.
        """
        public = path.with_suffix(".pub")
        if path == public:
            raise KeyInvalid(f"{path} is what a public half is called", hint="give another name")
        for place in (path, public):
            if place.exists():
                raise KeyInvalid(f"{place} is there already", hint="give another name")
        _write(path, "envhub secret key, keep it to yourself", _SECRET_HEAD + self._body(), 0o600)
        half = self.public
        _write(public, f"envhub public key {half.name}", _KEY + half.id + half.key, 0o644)
        return public

    @property
    def public(self) -> PublicKey:
        key = Ed25519PrivateKey.from_private_bytes(self.seed).public_key()
        return PublicKey(self.id, key.public_bytes_raw())

    def sign(self, content: bytes, comment: str) -> str:
        """The content of ``FILE.minisig``; ``comment`` is one line, and signed with it."""
        key = Ed25519PrivateKey.from_private_bytes(self.seed)
        signature = key.sign(hashlib.blake2b(content).digest())
        lines = (
            f"{_COMMENT}signature by envhub, key {self.public.name}",
            base64.b64encode(_PREHASHED + self.id + signature).decode(),
            f"{_TRUSTED}{comment}",
            base64.b64encode(key.sign(signature + comment.encode())).decode(),
        )
        return "".join(f"{line}\n" for line in lines)

    def _body(self) -> bytes:
        secret = self.id + self.seed + self.public.key
        return secret + hashlib.blake2b(_KEY + secret, digest_size=32).digest()


@dataclasses.dataclass(frozen=True, slots=True)
class _Signature:
    key_id: bytes
    signature: bytes
    comment: str
    over_all: bytes

    @classmethod
    def parse(cls, text: str) -> _Signature:
        lines = text.removesuffix("\n").split("\n")
        if len(lines) == 4 and lines[0].startswith(_COMMENT) and lines[2].startswith(_TRUSTED):
            one, all_ = _decode(lines[1]), _decode(lines[3])
            if one is not None and one[:2] == _PREHASHED and all_ is not None:
                body = one[2:]
                if (len(body), len(all_)) == (_ID_BYTES + _SIGNATURE_BYTES, _SIGNATURE_BYTES):
                    comment = lines[2].removeprefix(_TRUSTED)
                    return cls(body[:_ID_BYTES], body[_ID_BYTES:], comment, all_)
        raise PackNotTrusted("its signature cannot be read", hint="`minisign -S` makes such ones")


@dataclasses.dataclass(frozen=True, slots=True)
class Trust:
    """Whose archives are taken: anybody's, unless signatures are required."""

    keys: tuple[PublicKey, ...] = ()
    required: bool = False

    @classmethod
    def of(cls, keys: Sequence[str], *, required: bool = False) -> Trust:
        """Keys as base64 or as files. Raises ``KeyInvalid``."""
        return cls(tuple(map(PublicKey.given, keys)), required)

    def check(self, path: Path, content: bytes) -> str:
        """Who signed the archive at ``path``: a key's name, or nothing where nobody trusted did.

        A signature by a trusted key must be the file's own even where none is required. Raises
        ``PackNotTrusted``.
        """
        beside = signature_of(path)
        if not beside.is_file():
            if self.required:
                raise PackNotTrusted(
                    f"{path.name} is not signed: there is no {beside.name} beside it",
                    hint="`envhub pack build --sign KEY` makes one; or allow unsigned packs",
                )
            return ""
        try:
            signature = _read(beside)
            signer = _Signature.parse(signature).key_id
            for key in self.keys:
                if key.id == signer:
                    key.verify(content, signature)
                    return key.name
        except (PackNotTrusted, KeyInvalid) as error:
            raise PackNotTrusted(f"{path.name}: {error.message}", hint=error.hint) from None
        if self.required:
            raise PackNotTrusted(
                f"{path.name} is signed by key {_name(signer)}, which is not trusted here",
                hint="add its public half to trusted_keys, if you know whose it is",
            )
        return ""


def signature_of(path: Path) -> Path:
    """Where the signature of a file lies."""
    return path.with_name(path.name + SUFFIX)


def _name(key_id: bytes) -> str:
    return key_id[::-1].hex().upper()


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_SIGNATURE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KeyInvalid(f"{path} cannot be read: {error}") from None


def _write(path: Path, comment: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, mode), "w", encoding="ascii") as file:
        file.write(f"{_COMMENT}{comment}\n{base64.b64encode(data).decode()}\n")
