"""Taking more than its share of memory, time, threads, descriptors and attention.

Each stops by itself at a size that no confined worker reaches, so that it can be run bare.
"""

from tests.security.attacks.attack import ENDED, HARMLESS, STOPPED, attack

OUT_OF_MEMORY = "^(TOOL_CRASHED: .*(MemoryError|memory|Cannot allocate)|WorkerExited)"
STOPPED_OR_OUT = STOPPED + "|" + OUT_OF_MEMORY

ATTACKS = (
    attack("a large block of memory", STOPPED_OR_OUT, """
        block = bytearray(400 << 20)
        breach(len(block))
    """),
    attack("small blocks of memory", STOPPED_OR_OUT, """
        blocks = [bytes(1 << 16) for _ in range(6400)]
        breach(len(blocks))
    """),
    attack("memory past Python", STOPPED_OR_OUT, """
        maps = [mmap.mmap(-1, 16 << 20) for _ in range(25)]
        for each in maps:
            each[0] = 1
        breach(f"{16 * len(maps)} MiB")
    """),
    attack("a bomb in an archive", STOPPED_OR_OUT, """
        import zlib
        packer = zlib.compressobj(9)
        small = b"".join(packer.compress(bytes(1 << 20)) for _ in range(400)) + packer.flush()
        breach(len(zlib.decompress(small)))
    """),
    attack("a string that doubles", STOPPED_OR_OUT, """
        text = "x"
        while len(text) < 400 << 20:
            text += text
        breach(len(text))
    """),
    attack("an exhausting database", STOPPED_OR_OUT + "|TOOL_CRASHED", """
        values = db.rows("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40) "
                         "SELECT zeroblob(10000000) AS z FROM n")
        breach(len(values))
    """),
    attack("threads", STOPPED + r"|^TOOL_CRASHED: .*(thread|MemoryError)", """
        threading.stack_size(1 << 20)
        halt = threading.Event()
        threads = [threading.Thread(target=halt.wait, daemon=True) for _ in range(200)]
        for number, thread in enumerate(threads):
            thread.start()
        breach(f"{number} threads")
    """),
    attack("threads that outlive their call", r"^TOOL_CRASHED: .*thread", """
        def write():
            time.sleep(0.1)
            db.run("UPDATE items SET on_hand = 99")
        threading.Thread(target=write, daemon=True).start()
    """),
    attack("descriptors", "TOOL_CRASHED: OSError.*Too many open files", """
        copies = [os.dup(0) for _ in range(400)]
        breach(len(copies))
    """),
    attack("an endless loop", STOPPED, """
        while True:
            pass
    """),
    attack("an endless loop, deaf to signals", STOPPED, """
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        while True:
            try:
                while True:
                    pass
            except BaseException:
                continue
    """),
    attack("stopping itself", STOPPED, """
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(30)
    """),
    attack("sleeping", STOPPED, """
        time.sleep(60)
    """),
    attack("waiting for itself", STOPPED, """
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    """),
    attack("a pattern that backtracks", STOPPED, """
        re.match("(a+)+b", "a" * 64)
    """),
    attack("a number too long", STOPPED_OR_OUT + "|ValueError", """
        sys.set_int_max_str_digits(0)
        return len(str(7 ** 50_000_000))
    """),
    attack("never returning from C", STOPPED, """
        sum(range(10 ** 12))
    """),
    attack("dodging the deadline by a timer", STOPPED, """
        def again(*_):
            while True:
                time.sleep(0.01)
        signal.signal(signal.SIGALRM, again)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        while True:
            pass
    """),
    attack("recursion", "RecursionError|WorkerExited", """
        def deeper():
            return deeper()
        return deeper()
    """),
    attack("recursion without a limit", ENDED + "|MemoryError|RecursionError", """
        sys.setrecursionlimit(1 << 30)
        def deeper(*_):
            return max([1], key=deeper)
        return deeper()
    """),
    attack("printing without end", STOPPED, """
        while True:
            print("x" * 100_000)
    """),
    attack("printing more than is kept", HARMLESS + "|" + STOPPED, """
        for _ in range(200):
            print("x" * 1_000_000)
        sys.stderr.write("y" * 1_000_000)
        os.write(1, b"z" * 1_000_000)
        return "done"
    """),
    attack("a result too large", "^BAD_RESULT", """
        return ["x" * 1_000_000] * 20
    """),
    attack("a result too deep", "^(BAD_RESULT|FrameRejected|TOOL_CRASHED)", """
        nested = []
        for _ in range(100_000):
            nested = [nested]
        return nested
    """),
    attack("an error too large", "^TOOL_CRASHED: ValueError|^BAD_RESULT", """
        raise ValueError("x" * 50_000_000)
    """),
    attack("being killed as if from outside", "^returned .*refused", """
        return refused(
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            lambda: call(aim, "tgkill", os.getpid(), os.getpid(), signal.SIGKILL),
        )
    """),
)  # fmt: skip
