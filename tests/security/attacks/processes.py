"""Becoming more than one process, or another program."""

from tests.security.attacks.attack import REFUSED, attack

ATTACKS = (
    attack("fork", REFUSED, """
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        breach("two of us")
    """),
    attack("every way to fork", REFUSED, """
        def forking(name, *arguments):
            def fork():
                if call(aim, name, *arguments) == 0:
                    os._exit(0)
            return fork
        thread_of_another = 0x100 | signal.SIGCHLD
        size = ctypes.create_string_buffer(struct.pack("=11Q", 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
        return refused(
            forking("fork"),
            forking("vfork"),
            forking("clone", signal.SIGCHLD, 0, 0, 0, 0),
            forking("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
            forking("clone3", size, 88),
        )
    """),
    attack("a fork bomb", REFUSED, """
        for _ in range(6):  # enough to see that nothing stops it
            if os.fork() == 0:
                os.setsid()
                time.sleep(5)
                os._exit(0)
        breach("six more")
    """),
    attack("a daemon", REFUSED, """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(5)
            os._exit(0)
        breach("let loose")
    """),
    attack("another program", REFUSED, """
        os.execv("/bin/true", ["true"])
    """),
    attack("another program from memory", REFUSED, """
        call(aim, "execveat", os.open(sys.executable, os.O_PATH), b"", None, None, 0x1000)
    """),
    attack("a shell", REFUSED, """
        if os.system("exit 7") != 7 << 8:
            raise OSError("no shell")
        breach("it ran")
    """),
    attack("a subprocess", REFUSED, """
        breach(subprocess.check_output(["/bin/echo", "hello"]))
    """),
    attack("a spawned program", REFUSED, """
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        breach("it ran")
    """),
    attack("multiprocessing", REFUSED, """
        import multiprocessing
        context = multiprocessing.get_context("fork")
        process = context.Process(target=time.sleep, args=(0,))
        process.start()
        process.join()
        breach("it ran")
    """),
    attack("user and mount namespaces", REFUSED, """
        return refused(*(
            lambda flag=flag: call(aim, "unshare", flag)
            for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x10000000 | 0x40000000)
        ))
    """),
    attack("becoming another user", REFUSED, """
        return refused(
            lambda: os.setuid(os.getuid()),
            lambda: os.setresuid(0, 0, 0),
            lambda: os.setgroups([]),
            lambda: os.seteuid(1),
        )
    """),
    attack("root's powers back", REFUSED, """
        header, sets = struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", *[0xFFFFFFFF] * 6)
        return refused(
            lambda: call(aim, "capset", header, sets),
            lambda: call(aim, "prctl", 47, 2, 21, 0, 0),
        )
    """),
)  # fmt: skip
