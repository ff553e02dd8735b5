"""The process that workers are forked from:
``python -s -P -m environments.sandbox.zygote FD BREED``.

It is executed with an environment of its own, never forked from the gateway, so no secret of the
gateway was ever in its memory. It imports what workers need once and runs no code of a pack. One
thread, one loop: fork when asked, kill when asked, tell who is gone. Only it reaps, so a process id
is never killed after somebody else has got it. When the gateway's end of the socket closes, it
kills every worker and exits.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import socket
import sys

from environments.authoring import Database, declared_tools, tool
from environments.runtimes import fastapi
from environments.sandbox import guest
from environments.sandbox.confine import processes
from environments.sandbox.confine.layers import Confinement
from environments.sandbox.wire import CONTROL, Breed, Control


class _GatewayGone(Exception):
    """The other end of the control socket is closed."""


class Zygote:
    def __init__(self, control: socket.socket, confinement: Confinement) -> None:
        self._control = control
        self._confinement = confinement
        self._workers: dict[int, int] = {}  # number -> process id
        self._wake, wakes = socket.socketpair()
        wakes.setblocking(False)
        self._wake.setblocking(False)
        self._wakes = wakes
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until the gateway is gone; leaves no worker behind."""
        processes.adopt_orphans()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        try:
            self._tell(Control.READY, 0, os.getpid())
            while True:
                ready = {descriptor for descriptor, _ in poll.poll()}
                if self._wake.fileno() in ready:
                    self._wake.recv(4096)
                    self._reap()
                if self._control.fileno() in ready:
                    self._obey()
        except _GatewayGone:
            pass
        finally:
            self._end()

    def _obey(self) -> None:
        # One record a time: a socket stays with the record it came with.
        size = CONTROL.size
        try:
            record, descriptors, _, _ = socket.recv_fds(self._control, size, 1, socket.MSG_WAITALL)
        except ConnectionResetError:  # it died with a record of ours unread
            raise _GatewayGone from None
        if len(record) < size:
            raise _GatewayGone
        operation, number, _ = CONTROL.unpack(record)
        if operation == Control.SPAWN and descriptors:
            self._spawn(number, socket.socket(fileno=descriptors[0]))
        elif operation == Control.SPAWN:  # it has as many open as it may
            self._tell(Control.FAILED, number, errno.EMFILE)
        elif operation == Control.KILL and number in self._workers:
            os.kill(self._workers[number], signal.SIGKILL)

    def _spawn(self, number: int, channel: socket.socket) -> None:
        parent = os.getpid()
        with channel:
            try:
                pid = os.fork()
            except OSError as error:
                self._tell(Control.FAILED, number, error.errno or 0)
                return
            if pid == 0:
                self._become_worker(parent, channel)
        self._workers[number] = pid
        self._tell(Control.SPAWNED, number, pid)

    def _become_worker(self, parent: int, channel: socket.socket) -> None:
        """In the child; never returns."""
        try:
            os.setsid()
            processes.die_with_parent(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for inherited in (self._control, self._wake, self._wakes):
                inherited.close()
            guest.serve(channel, self._confinement)
        finally:
            os._exit(1)

    def _reap(self) -> None:
        numbers = {pid: number for number, pid in self._workers.items()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if os.WIFSTOPPED(status):  # it asked to be traced by us, which nobody honest does
                os.kill(pid, signal.SIGKILL)
                continue
            number = numbers.get(pid)
            if number is not None:
                del self._workers[number]
                self._tell(Control.EXITED, number, os.waitstatus_to_exitcode(status))
        processes.kill_orphans(self._workers.values())

    def _tell(self, operation: Control, number: int, value: int) -> None:
        try:
            self._control.sendall(CONTROL.pack(operation, number, value))
        except OSError as error:
            raise _GatewayGone from error

    def _end(self) -> None:
        for pid in self._workers.values():
            os.kill(pid, signal.SIGKILL)
        while True:
            try:
                pid, _ = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            self._workers = {n: other for n, other in self._workers.items() if other != pid}
            processes.kill_orphans(self._workers.values())


def _warm_up(breed: Breed) -> None:
    """Declare a tool and ask for its schema, so that what pydantic imports and builds on first use
    is there to be forked: otherwise every worker pays for it again, many times what the fork costs.

    Raises ``ImportError``."""

    @tool(read_only=True)
    def warm_up(db: Database, text: str = "", number: int = 0) -> None:
        """Never called."""

    for declared in declared_tools([warm_up]).values():
        declared.spec  # noqa: B018 - made when it is first asked for

    if breed is Breed.IMPORTS:
        fastapi.warm_up()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    os.chdir("/")
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    try:
        _warm_up(Breed(sys.argv[2]))
    except ImportError:
        control.sendall(CONTROL.pack(Control.LACKING, 0, 0))
        return
    confinement = Confinement()
    gc.collect()
    gc.freeze()  # the collector leaves shared pages alone, so that forks keep sharing them
    Zygote(control, confinement).run()


if __name__ == "__main__":
    main()
