"""The hub's own tokens: a file beside the ledger, written by ``envhub token`` and read by the hub.

A secret is 256 random bits, shown once. The file holds its SHA-256: nobody can guess their way
back from that, so a slow hash would cost every call and add nothing, and finding a token by its
digest tells a stopwatch nothing of the secret.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hub.auth.principal import Principal, TokenScope, is_name
from hub.auth.quota import NO_LIMITS, Limits, Quota
from hub.errors import DataDirUnusable, TokenExists, TokenInvalid, UnknownToken
from hub.telemetry import logger

PREFIX: Final = "eh_"
"""What secrets begin with, for people and for programs that look for leaked ones."""
SECRET_BYTES: Final = 32
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

log = logger("hub.auth")


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a token."""

    name: str
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of its secret, in hex."""
    tenant: str
    scopes: Annotated[tuple[TokenScope, ...], msgspec.Meta(min_length=1)]
    created: int
    """In seconds since 1970, as ``expires`` is."""
    expires: int | None = None
    limits: Limits = NO_LIMITS


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    format: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    tokens: tuple[Token, ...] = ()


class TokenFile:
    """The tokens of one data directory. Once there has been one, the hub asks for tokens."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[Token, ...]:
        """All of them. Raises ``DataDirUnusable`` where the file is not what it should be."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Kept).tokens
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError) as error:
            raise DataDirUnusable(
                f"the tokens in {self.path} cannot be read: {error}",
                hint="mend it, or delete it and make new tokens",
            ) from error

    def create(
        self,
        name: str,
        tenant: str,
        scopes: Sequence[TokenScope],
        *,
        expires: int | None = None,
        limits: Limits = NO_LIMITS,
    ) -> str:
        """Make a token; returns its secret, which is nowhere else. Raises ``TokenExists`` and
        ``TokenInvalid``."""
        if not NAME.fullmatch(name):
            raise TokenInvalid(
                f"{name!r} is no name for a token",
                hint="letters, digits, dots, dashes and underscores, at most 64",
            )
        if not is_name(tenant):
            raise TokenInvalid(f"{tenant!r} is no name for a tenant", hint="no blanks, at most 200")
        secret = PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode()[:-1]
        made = Token(
            name=name,
            digest=digest_of(secret.encode()).hex(),
            tenant=tenant,
            scopes=tuple(dict.fromkeys(scopes)),
            created=int(time.time()),
            expires=expires,
            limits=limits,
        )
        with self._changing() as tokens:
            if any(token.name == name for token in tokens):
                raise TokenExists(
                    f"there is a token {name!r}", hint="revoke it first, or choose another name"
                )
            self._write((*tokens, made))
        return secret

    def revoke(self, name: str) -> None:
        """Forget a token; the file stays, and so does the asking. Raises ``UnknownToken``."""
        with self._changing() as tokens:
            left = tuple(token for token in tokens if token.name != name)
            if len(left) == len(tokens):
                names = ", ".join(token.name for token in tokens) or "none"
                raise UnknownToken(f"there is no token {name!r}", hint=f"there are: {names}")
            self._write(left)

    @contextmanager
    def _changing(self) -> Iterator[tuple[Token, ...]]:
        """One at a time, whichever process it is."""
        handle = self._own(self.path.with_suffix(".lock"))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield self.read()
        finally:
            os.close(handle)

    def _write(self, tokens: tuple[Token, ...]) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(self._own(fresh, os.O_EXCL), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(_Kept(tokens=tokens))))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    def _own(self, path: Path, more: int = 0) -> int:
        """A file beside the tokens, open for writing.

        What root makes is the directory's owner's, or the hub could not read it; and no link of
        theirs has root write to or give away another file. Raises ``DataDirUnusable``.
        """
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | more, 0o600)
        except OSError as error:
            raise DataDirUnusable(
                f"{path} cannot be written: {error.strerror}",
                hint="is it a link, or another user's?",
            ) from error
        if os.geteuid() == 0:
            owner = self.path.parent.stat()
            os.fchown(handle, owner.st_uid, owner.st_gid)
        return handle


class Tokens:
    """The tokens as a running hub knows them: in memory, read anew when the file has changed."""

    def __init__(
        self,
        file: TokenFile,
        limits: Limits = NO_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = file
        self._limits = limits
        self._clock = clock
        self._known: dict[bytes, tuple[Token, Principal]] = {}
        self._seen = self._stamp()
        self.configured = self._seen is not None
        self._take(file.read())

    def find(self, secret: bytes) -> Principal | None:
        """Whose secret it is; ``None`` if nobody's (any more)."""
        digest = digest_of(secret)
        known = self._known.get(digest)
        if known is None and self.refresh():  # it may have been made since
            known = self._known.get(digest)
        if known is None or self._clock() >= known[1].expires:
            return None
        return known[1]

    def refresh(self) -> bool:
        """Read the file if it is another one than last time; what was revoked ends. Costs one
        ``stat`` otherwise. A file that cannot be read adds and ends nothing."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen, self.configured = stamp, True
        try:
            self._take(self._file.read())
        except DataDirUnusable as error:
            log.error("tokens not read", message=error.message)
            return False
        return True

    def _take(self, tokens: Sequence[Token]) -> None:
        before, self._known = self._known, {}
        for token in tokens:
            digest = bytes.fromhex(token.digest)
            known = before.get(digest)
            if known is None or known[0] != token:
                known = (token, self._principal(token))
            else:
                del before[digest]
            self._known[digest] = known
        for _, principal in before.values():
            principal.ended.set()

    def _principal(self, token: Token) -> Principal:
        return Principal(
            token.name,
            token.tenant,
            token.scopes,
            quota=Quota(token.limits.or_else(self._limits)),
            expires=float("inf") if token.expires is None else token.expires,
        )

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            found = self._file.path.stat()
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)


def digest_of(secret: bytes) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret).digest()
