"""Leaving anything behind, or breaking what is there."""

from tests.security.attacks.attack import REFUSED, attack

ATTACKS = (
    attack("a new file", REFUSED, """
        open(aim["folder"] + "/new", "w").write("x")
        breach("written")
    """),
    attack("an empty file", REFUSED, """
        os.close(os.open(aim["folder"] + "/new", os.O_CREAT | os.O_RDONLY))
        breach("made")
    """),
    attack("writing over a file", REFUSED, """
        os.write(os.open(aim["file"], os.O_WRONLY), b"gone")
        breach("written")
    """),
    attack("emptying a file", REFUSED, """
        return refused(
            lambda: os.open(aim["file"], os.O_RDONLY | os.O_TRUNC),
            lambda: os.truncate(aim["file"], 0),
        )
    """),
    attack("deleting", REFUSED, """
        return refused(
            lambda: os.unlink(aim["file"]),
            lambda: os.rmdir(aim["folder"] + "/inner"),
        )
    """),
    attack("renaming and linking", REFUSED, """
        folder, file = aim["folder"], aim["file"]
        return refused(
            lambda: os.rename(file, folder + "/other"),
            lambda: os.link(file, folder + "/link"),
            lambda: os.symlink("/etc/passwd", folder + "/symlink"),
            lambda: call(aim, "renameat2", -100, file.encode(), -100, (folder + "/x").encode(), 2),
        )
    """),
    attack("folders, pipes and devices", REFUSED, """
        folder = aim["folder"]
        return refused(
            lambda: os.mkdir(folder + "/d"),
            lambda: os.mkfifo(folder + "/p"),
            lambda: os.mknod(folder + "/n", 0o600 | stat.S_IFREG),
            lambda: os.mknod(folder + "/z", 0o600 | stat.S_IFCHR, os.makedev(1, 1)),
        )
    """),
    attack("modes", REFUSED, """
        os.chmod(aim["file"], 0o777)
        breach("changed")
    """),
    attack("owners", REFUSED, """
        os.chown(aim["file"], os.getuid(), os.getgid())
        breach("changed")
    """),
    attack("times", REFUSED, """
        os.utime(aim["file"], (0, 0))
        breach("changed")
    """),
    attack("extended attributes", REFUSED, """
        os.setxattr(aim["file"], "user.mark", b"x")
        breach("changed")
    """),
    attack("temporary folders", REFUSED, """
        def visit(path):
            open(path, "w").close()
            os.unlink(path)
            return path
        return refused(*(
            lambda path=path: visit(f"{path}/envhub-{os.getpid()}")
            for path in (aim["scratch"], "/tmp", "/var/tmp", "/dev/shm", "/run", "/", ".")
        ))
    """),
    attack("a temporary file", "No usable temporary|PermissionError|refused", """
        tempfile.TemporaryFile()
        breach("made")
    """),
    attack("a file without a name", REFUSED, """
        os.open(aim["scratch"], os.O_TMPFILE | os.O_RDWR)
        breach("made")
    """),
    attack("memory files, which no limit counts", REFUSED, """
        return refused(
            lambda: os.memfd_create("x"),
            lambda: call(aim, "memfd_secret", 0),
        )
    """),
    attack("its own code", REFUSED, """
        return refused(
            lambda: open(aim["pack"] + "/tools.py", "a").close(),
            lambda: os.unlink(aim["pack"] + "/tools.py"),
        )
    """),
    attack("its own snapshot", REFUSED, """
        return refused(
            lambda: open(aim["snapshot"], "r+b").close(),
            lambda: os.chmod(aim["snapshot"], 0o666),
            lambda: mmap.mmap(os.open(aim["snapshot"], os.O_RDONLY), 4096,
                              prot=mmap.PROT_READ | mmap.PROT_WRITE),
        )
    """),
    attack("the interpreter and its packages", REFUSED, """
        return refused(
            lambda: open(os.__file__, "a").close(),
            lambda: open(msgspec.__file__, "a").close(),
            lambda: open(wire.__file__, "a").close(),
        )
    """),
    attack("a mount", REFUSED, """
        target = (aim["folder"] + "/inner").encode()
        if libc.mount(b"none", target, b"tmpfs", 0, None):
            raise OSError(ctypes.get_errno(), "mount")
        libc.umount2(target, 2)
        breach("mounted")
    """),
    attack("a copy by the kernel", REFUSED, """
        source = os.open(aim["snapshot"], os.O_RDONLY)
        reading, writing = os.pipe()
        return refused(
            lambda: os.sendfile(writing, source, 0, 4096),
            lambda: os.splice(source, writing, 4096),
            lambda: os.copy_file_range(source, os.open(aim["file"], os.O_WRONLY), 10),
        )
    """),
    attack("a dump of its memory", "^WorkerExited.*SIGQUIT", """
        resource.setrlimit  # cannot be raised again, see elsewhere
        os.kill(os.getpid(), signal.SIGQUIT)
        time.sleep(5)
    """),
)  # fmt: skip
