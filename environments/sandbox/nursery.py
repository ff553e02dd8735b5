"""The gateway's end of a zygote: workers are forked there, and their deaths are told from there."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from environments.errors import InfrastructureFault, PackInvalid, WorkerLost
from environments.sandbox.wire import CONTROL, Breed, Control
from environments.sandbox.worker import Worker

_ROOT: Final = Path(__file__).resolve().parents[2]
_ENVIRONMENT: Final[dict[str, str]] = {
    "PYTHONHASHSEED": "0",  # the order of sets must not differ between workers
    "PYTHONDONTWRITEBYTECODE": "1",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}
"""All that a zygote knows of the world; nothing of the gateway's own environment."""
if _ROOT.name not in ("site-packages", "dist-packages"):  # run from a checkout
    _ENVIRONMENT["PYTHONPATH"] = str(_ROOT)


class Nursery:
    """A running zygote. Open it with ``open``; whoever does closes it."""

    def __init__(
        self,
        breed: Breed,
        max_frame_bytes: int,
        gone: Callable[[Worker], None],
        free: Callable[[Worker], None],
    ) -> None:
        self.alive = True
        self.breed = breed
        self._max_frame_bytes = max_frame_bytes
        self._gone = gone
        self._free = free
        self._loop = asyncio.get_running_loop()
        self._workers: dict[int, Worker] = {}
        self._forking: dict[int, asyncio.Future[int]] = {}
        self._numbers = 0
        self._received = b""
        self._ready: asyncio.Future[int] = self._loop.create_future()
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-m", "environments.sandbox.zygote",
                 str(theirs.fileno()), breed],
                env=_ENVIRONMENT,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self._loop.add_reader(self._control, self._read)

    @classmethod
    async def open(
        cls,
        breed: Breed,
        max_frame_bytes: int,
        gone: Callable[[Worker], None],
        free: Callable[[Worker], None],
        timeout_seconds: float,
    ) -> Nursery:
        """Start a zygote. ``gone`` hears of workers that ended by themselves, ``free`` of
        those that have answered.

        Raises ``InfrastructureFault`` if it does not come up in time, ``PackInvalid`` if packages
        are missing that packs of this ``breed`` need.
        """
        try:
            nursery = cls(breed, max_frame_bytes, gone, free)
        except OSError as error:
            raise InfrastructureFault(f"the zygote cannot be started: {error}") from error
        try:
            async with asyncio.timeout(timeout_seconds):
                await nursery._ready
        except BaseException as error:
            await nursery.close(timeout_seconds=1)
            if isinstance(error, TimeoutError):
                raise InfrastructureFault("the zygote did not come up in time") from error
            raise
        return nursery

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, timeout_seconds: float) -> Worker:
        """A new worker, not yet confined or loaded.

        Raises ``InfrastructureFault``: ``WorkerLost`` if the zygote goes meanwhile, which is killed
        where it does not answer in time.
        """
        if not self.alive:
            raise InfrastructureFault("the zygote is gone")
        self._numbers += 1
        number = self._numbers
        worker = Worker(
            number, self._loop, self._max_frame_bytes, self.kill, self._gone, self._free
        )
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise InfrastructureFault(f"no worker can be forked: {error}") from error
        forked = self._forking[number] = self._loop.create_future()
        try:
            with theirs:
                record = CONTROL.pack(Control.SPAWN, number, 0)
                socket.send_fds(self._control, [record], [theirs.fileno()])
            self._workers[number] = worker
            await self._loop.create_unix_connection(lambda: worker, sock=ours)
            async with asyncio.timeout(timeout_seconds):
                worker.pid = await forked
        except BaseException as error:
            worker.kill("start")
            if not worker.connected:
                ours.close()
            if isinstance(error, TimeoutError):
                self._process.kill()  # it hangs: whoever asks next finds another
                self._lose()
                raise WorkerLost("the zygote forks no worker in time") from error
            if isinstance(error, OSError):
                raise InfrastructureFault(f"no worker can be forked: {error}") from error
            raise
        finally:
            self._forking.pop(number, None)
        return worker

    def kill(self, number: int) -> None:
        """SIGKILL for that worker, if it still lives. Only the zygote knows that without a race."""
        if self.alive:
            try:
                self._control.send(CONTROL.pack(Control.KILL, number, 0))
            except OSError:  # it is not listening any more: then it goes, and its workers with it
                self._process.kill()

    async def close(self, timeout_seconds: float = 5) -> None:
        """End the zygote and every worker of it. Idempotent."""
        self._lose()
        waiting = self._loop.run_in_executor(None, self._process.wait, timeout_seconds)
        try:
            await asyncio.shield(waiting)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await self._loop.run_in_executor(None, self._process.wait)

    # --- what the zygote says -------------------------------------------------------------------

    def _read(self) -> None:
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        data = self._received + data
        whole = len(data) - len(data) % CONTROL.size
        self._received = data[whole:]
        for operation, number, value in CONTROL.iter_unpack(data[:whole]):
            self._hear(operation, number, value)

    def _hear(self, operation: int, number: int, value: int) -> None:
        if operation == Control.READY:
            if not self._ready.done():
                self._ready.set_result(value)
        elif operation == Control.LACKING:
            if not self._ready.done():
                self._ready.set_exception(
                    PackInvalid(
                        "SQLAlchemy and FastAPI are not installed, which this environment runs on",
                        hint="pip install 'mcp-env-hub[imports]'",
                    )
                )
        elif operation == Control.EXITED:
            worker = self._workers.pop(number, None)
            if worker is not None:
                worker.exited(value)
        else:
            forked = self._forking.get(number)
            if operation == Control.FAILED:
                self._workers.pop(number, None)
            if forked is not None and not forked.done():
                if operation == Control.SPAWNED:
                    forked.set_result(value)
                else:
                    forked.set_exception(OSError(value, os.strerror(value)))

    def _lose(self) -> None:
        """The zygote is gone or no longer wanted."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control)
        self._control.close()
        if not self._ready.done():
            self._ready.set_exception(InfrastructureFault("the zygote is gone"))
        if not self._ready.cancelled():
            self._ready.exception()  # seen
        for forked in self._forking.values():
            if not forked.done():
                forked.set_exception(WorkerLost("the zygote is gone"))
        workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            worker.lost()
