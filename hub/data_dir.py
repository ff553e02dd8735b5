"""The directory one hub keeps: its lock, its secret, its snapshots and its ledger."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hub.errors import DataDirLocked, DataDirUnusable

SECRET_BYTES = 32
ELSEWHERE = "give another data directory (ENVHUB_DATA_DIR, or --data-dir of `envhub serve`)"


class DataDir:
    """Paths below ``root``, which is made if it is missing, readable by its owner alone."""

    def __init__(self, root: Path) -> None:
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise DataDirUnusable(
                f"cannot use {root} as data directory: {error.strerror}",
                hint=ELSEWHERE,
            ) from error
        self.root = root
        self.snapshots = root / "snapshots"
        self.packs = root / "packs"
        self.ledger = root / "ledger.sqlite3"
        self.tokens = root / "tokens.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other hubs out while the body runs; the kernel drops the lock with the process.

        Raises ``DataDirLocked`` naming the process that holds it.
        """
        with (self.root / "lock").open("a+", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise DataDirLocked(
                    f"{self.root} is in use by another hub (process {file.read().strip() or '?'})",
                    hint=f"stop that hub, or {ELSEWHERE}",
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def secret(self) -> bytes:
        """The key session ids are signed with: made once, 0600, the same after a restart."""
        path = self.root / "secret"
        with suppress(FileExistsError):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
        secret = path.read_bytes()
        if len(secret) != SECRET_BYTES:
            raise DataDirUnusable(
                f"{path} is not a secret of {SECRET_BYTES} bytes", hint="delete it; sessions end"
            )
        return secret
