"""Reaching other processes: the gateway, the zygote, a bystander of the same user."""

from tests.security.attacks.attack import REFUSED, attack

ATTACKS = (
    attack("a signal to the gateway", REFUSED, """
        os.kill(aim["gateway"], signal.SIGUSR1)
        breach("sent")
    """),
    attack("a signal to the zygote", REFUSED, """
        os.kill(os.getppid(), signal.SIGURG)
        breach("sent")
    """),
    attack("stopping a bystander", REFUSED, """
        os.kill(aim["pid"], signal.SIGSTOP)
        breach("stopped")
    """),
    attack("a signal to everybody", REFUSED, """
        return refused(
            lambda: os.kill(-1, 0),
            lambda: os.kill(0, 0),
            lambda: os.kill(-os.getpid(), 0),
            lambda: os.killpg(os.getpgid(aim["pid"]), 0),
        )
    """),
    attack("signals by other calls", REFUSED, """
        pid, information = aim["pid"], bytes(128)
        return refused(
            lambda: call(aim, "tgkill", pid, pid, signal.SIGSTOP),
            lambda: call(aim, "tkill", pid, signal.SIGSTOP),
            lambda: call(aim, "rt_sigqueueinfo", pid, signal.SIGUSR1, information),
            lambda: call(aim, "rt_tgsigqueueinfo", pid, pid, signal.SIGUSR1, information),
        )
    """),
    attack("a signal through a process descriptor", REFUSED, """
        signal.pidfd_send_signal(os.pidfd_open(aim["pid"]), signal.SIGSTOP)
        breach("stopped")
    """),
    attack("a signal that the kernel sends for it", REFUSED, """
        reading, writing = os.pipe()
        fcntl.fcntl(reading, fcntl.F_SETOWN, aim["gateway"])
        fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGUSR1)
        fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
        os.write(writing, b"x")
        breach("sent")
    """),
    attack("a signal from its channel", REFUSED, """
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    break
            except OSError:
                pass
        owner = struct.pack("=i", aim["gateway"])
        return refused(
            lambda: fcntl.ioctl(descriptor, 0x8901, owner),
            lambda: fcntl.ioctl(descriptor, 0x8902, owner),
            lambda: fcntl.fcntl(descriptor, 15, struct.pack("=ii", 1, aim["gateway"])),
        )
    """),
    attack("tracing a bystander", REFUSED, """
        seize, interrupt, detach, wait_all = 0x4206, 0x4207, 17, 0x40000000
        call(aim, "ptrace", seize, aim["pid"], 0, 0)
        call(aim, "ptrace", interrupt, aim["pid"], 0, 0)
        os.waitpid(aim["pid"], wait_all)
        call(aim, "ptrace", detach, aim["pid"], 0, 0)
        breach("attached")
    """),
    attack("being traced", REFUSED, """
        call(aim, "ptrace", 0, 0, 0, 0)
        breach("traced")
    """),
    attack("reading a bystander's memory", REFUSED, """
        there = struct.pack("=QQ", aim["address"], aim["length"])
        here = ctypes.create_string_buffer(aim["length"])
        vector = struct.pack("=QQ", ctypes.addressof(here), aim["length"])
        call(aim, "process_vm_readv", aim["pid"], vector, 1, there, 1, 0)
        breach(here.value)
    """),
    attack("writing a bystander's memory", REFUSED, """
        there = struct.pack("=QQ", aim["address"], 1)
        here = ctypes.create_string_buffer(b"!")
        vector = struct.pack("=QQ", ctypes.addressof(here), 1)
        call(aim, "process_vm_writev", aim["pid"], vector, 1, there, 1, 0)
        breach("written")
    """),
    attack("a bystander's memory through /proc", REFUSED, """
        with open(f"/proc/{aim['pid']}/mem", "rb", 0) as memory:
            memory.seek(aim["address"])
            breach(memory.read(aim["length"]))
    """),
    attack("a bystander's descriptors", REFUSED, """
        call(aim, "pidfd_getfd", os.pidfd_open(aim["pid"]), 0, 0)
        breach("taken")
    """),
    attack("comparing itself with others", REFUSED, """
        call(aim, "kcmp", os.getpid(), aim["pid"], 1, 0, 0)
        breach("compared")
    """),
    attack("a bystander's limits", REFUSED, """
        call(aim, "prlimit64", aim["pid"], 7, struct.pack("=QQ", 64, 64), None)
        breach("lowered")
    """),
    attack("a bystander's priority", REFUSED, """
        os.setpriority(os.PRIO_PROCESS, aim["pid"], 15)
        breach("changed")
    """),
    attack("a bystander's processors", REFUSED, """
        os.sched_setaffinity(aim["pid"], {min(os.sched_getaffinity(0))})
        breach("changed")
    """),
    attack("shared memory and queues", REFUSED, """
        def made(kind, *arguments):
            call(aim, kind + "ctl", call(aim, kind + "get", *arguments), 0, 0)  # and gone again
        def queue():
            call(aim, "mq_open", b"envhub-attack", 0o102, 0o600, None)
            call(aim, "mq_unlink", b"envhub-attack")
        return refused(
            lambda: made("shm", 0, 4096, 0o1600),
            lambda: made("msg", 0, 0o1600),
            lambda: made("sem", 0, 1, 0o1600),
            queue,
        )
    """),
)  # fmt: skip
