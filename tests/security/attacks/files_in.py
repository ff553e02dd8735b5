"""Reading what is not its own."""

from tests.security.attacks.attack import HARMLESS, REFUSED, attack

ATTACKS = (
    attack("the users of the machine", REFUSED, """
        breach(read("/etc/passwd"))
    """),
    attack("a secret by its path", REFUSED, """
        breach(read(aim["file"]))
    """),
    attack("the files of a folder", REFUSED, """
        breach(os.listdir(aim["folder"]))
    """),
    attack("by way of the C library", "returned 'None'", """
        libc.fopen.restype = ctypes.c_void_p
        return libc.fopen(aim["file"].encode(), b"r") and breach("opened")
    """),
    attack("by a path that goes round", REFUSED, """
        inside = os.path.dirname(os.__file__)
        up = "/".join([".."] * inside.count("/"))
        return refused(
            lambda: read(f"{inside}/{up}{aim['file']}"),
            lambda: read(f"/proc/self/root{aim['file']}"),
            lambda: read(f"/proc/self/cwd{aim['file']}"),
        )
    """),
    attack("relative to a descriptor", REFUSED, """
        folder = os.open(aim["folder"], os.O_PATH)
        breach(os.read(os.open("secret.txt", os.O_RDONLY, dir_fd=folder), 100))
    """),
    attack("by openat2", REFUSED, """
        how = struct.pack("=QQQ", 0, 0, 0)
        call(aim, "openat2", -100, aim["file"].encode(), how, 24)
        breach("opened")
    """),
    attack("by a file handle", REFUSED, """
        handle = ctypes.create_string_buffer(struct.pack("=II", 128, 0) + bytes(128))
        call(aim, "name_to_handle_at", -100, aim["file"].encode(), handle,
             ctypes.create_string_buffer(4), 0)
        breach("a handle")
    """),
    attack("by changing the root", REFUSED, """
        os.chroot(aim["folder"])
        breach(os.listdir("/"))
    """),
    attack("another database through sqlite3", "unable to open|refused|CANTOPEN", """
        breach(sqlite3.connect(f"file:{aim['database']}?mode=ro", uri=True)
               .execute("SELECT token FROM t").fetchall())
    """),
    attack("another database through apsw", "CantOpen|refused", """
        breach(apsw.Connection(aim["database"], flags=apsw.SQLITE_OPEN_READONLY)
               .execute("SELECT token FROM t").fetchall())
    """),
    attack("the answers to its own tasks", REFUSED, """
        breach(read(aim["pack"] + "/tasks.jsonl"))
    """),
    attack("the rest of its pack", REFUSED, """
        pack = aim["pack"]
        return refused(
            lambda: os.listdir(pack),
            lambda: read(pack + "/data.sql"),
            lambda: read(pack + "/environment.toml"),
        )
    """),
    attack("the answers of shipped packs", REFUSED, """
        return refused(
            lambda: read(aim["shipped"] + "/banking/tasks.jsonl"),
            lambda: os.listdir(aim["shipped"]),
        )
    """),
    attack("the snapshots of others", REFUSED, """
        breach(os.listdir(os.path.dirname(aim["snapshot"])))
    """),
    attack("the gateway in /proc", REFUSED, """
        def reading(name):
            return lambda: read(f"/proc/{aim['gateway']}/{name}")
        return refused(*map(reading, ("environ", "cmdline", "maps", "mem", "status", "fd/0")))
    """),
    attack("everybody in /proc", REFUSED, """
        return refused(
            lambda: os.listdir("/proc"),
            lambda: read(f"/proc/{aim['pid']}/cmdline"),
            lambda: read(f"/proc/{os.getppid()}/environ"),
            lambda: read("/proc/self/environ"),
            lambda: read("/proc/cmdline"),
            lambda: read("/proc/kallsyms"),
            lambda: os.listdir("/sys"),
        )
    """),
    attack("devices", REFUSED, """
        return refused(*(
            lambda path=path: os.open(path, os.O_RDONLY)
            for path in ("/dev/mem", "/dev/kmsg", "/dev/tty", "/dev/ptmx", "/dev/fuse", "/dev/shm")
        ))
    """),
    attack("watching a folder", REFUSED, """
        watch = libc.inotify_init1(0)
        if watch < 0 or libc.inotify_add_watch(watch, aim["folder"].encode(), 0xFFF) < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        breach("watching")
    """),
    attack("a walk over the heap for secrets", HARMLESS, """
        def texts():
            yield from os.environ.values()
            yield from sys.argv
            for thing in gc.get_objects():
                for inner in (thing, *gc.get_referents(thing)):
                    if isinstance(inner, (str, bytes, bytearray)):
                        yield inner if isinstance(inner, str) else bytes(inner).decode("latin-1")
        for text in texts():
            if TOKEN.search(text):
                breach(TOKEN.search(text)[0][:12])
        leaked = set(os.environ) - {"PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH",
                                    "LC_ALL", "LC_CTYPE", "TZ"}
        if leaked:
            breach(leaked)
    """),
    attack("a walk over raw memory for secrets", REFUSED, """
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
            for line in maps:
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                if "rw-p" in line and end - start < 1 << 26:
                    memory.seek(start)
                    if TOKEN.search(memory.read(end - start).decode("latin-1")):
                        breach("found")
        breach("memory can be walked")
    """),
)  # fmt: skip
