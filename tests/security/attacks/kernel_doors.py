"""Parts of the kernel with a history, and loosening the confinement itself."""

from tests.security.attacks.attack import ENDED, REFUSED, attack

ATTACKS = (
    attack("a program for the kernel", REFUSED, """
        call(aim, "bpf", 0, struct.pack("=IIII", 1, 4, 4, 1) + bytes(112), 128)
        breach("a map")
    """),
    attack("userfaultfd", REFUSED, """
        call(aim, "userfaultfd", 1)
        breach("opened")
    """),
    attack("performance counters", REFUSED, """
        attributes = struct.pack("=IIQ", 1, 128, 0) + bytes(112)
        call(aim, "perf_event_open", attributes, 0, -1, -1, 0)
        breach("opened")
    """),
    attack("keys", REFUSED, """
        return refused(
            lambda: call(aim, "keyctl", 0, -3, 0, 0, 0),
            lambda: call(aim, "add_key", b"user", b"envhub", b"x", 1, -3),
            lambda: call(aim, "request_key", b"user", b"envhub", None, 0),
        )
    """),
    attack("new ways to mount", REFUSED, """
        return refused(
            lambda: call(aim, "fsopen", b"tmpfs", 0),
            lambda: call(aim, "open_tree", -100, b"/", 0),
            lambda: call(aim, "pivot_root", b"/", b"/"),
            lambda: call(aim, "setns", 0, 0),
        )
    """),
    attack("the machine's name and clock", REFUSED, """
        name = os.uname().nodename.encode()
        return refused(
            lambda: call(aim, "sethostname", name, len(name)),
            lambda: call(aim, "clock_adjtime", 0, bytes(208)),
            lambda: call(aim, "syslog", 10, None, 0),
        )
    """),
    attack("another personality", REFUSED, """
        call(aim, "personality", 0x0040000)
        breach("no randomised addresses")
    """),
    attack("locked memory", REFUSED, """
        call(aim, "mlockall", 3)
        breach("locked")
    """),
    attack("higher limits", "TOOL_CRASHED: (ValueError|PermissionError)|refused", """
        for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
            resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)
        breach("raised")
    """),
    attack("a higher priority", REFUSED, """
        return refused(
            lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
            lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        )
    """),
    attack("outliving the zygote, dumping itself", REFUSED, """
        return refused(
            lambda: call(aim, "prctl", 1, 0, 0, 0, 0),
            lambda: call(aim, "prctl", 4, 1, 0, 0, 0),
            lambda: call(aim, "prctl", 0x59616d61, -1, 0, 0, 0),
        )
    """),
    attack("another filter over the filter", REFUSED, """
        allow = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
        text = ctypes.create_string_buffer(allow, 8)
        program = ctypes.create_string_buffer(struct.pack("=H6xQ", 1, ctypes.addressof(text)), 16)
        return refused(
            lambda: call(aim, "prctl", 22, 2, program, 0, 0),
            lambda: call(aim, "seccomp", 1, 0, program),
            lambda: call(aim, "seccomp", 1, 8, program),
        )
    """),
    attack("calls by the 32-bit convention", ENDED + "|TOOL_CRASHED: OSError", """
        if os.uname().machine != "x86_64":
            raise OSError("there is another way in on x86-64 only")
        # mov eax, 20 (getpid); int 0x80; ret
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes.fromhex("b814000000cd80c3"))
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        got = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        if got != os.getpid():
            raise OSError(got, "no 32-bit calls in this kernel")
        breach(f"getpid says {got}")
    """),
    attack("calls by the x32 convention", REFUSED, """
        got = libc.syscall(ctypes.c_long(0x40000000 + 39))
        if got < 0:
            raise OSError(ctypes.get_errno(), "x32")
        breach(got)
    """),
    attack("numbers nobody has heard of", REFUSED, """
        known = set(aim["nr"].values())
        answers = set()
        for number in set(range(480, 900)) - known:
            libc.syscall(ctypes.c_long(number))
            answers.add(ctypes.get_errno())
        if answers - {errno.EPERM, errno.ENOSYS}:
            breach(answers)
        raise OSError(errno.EPERM, "refused")
    """),
)  # fmt: skip
