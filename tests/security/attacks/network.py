"""Speaking to anybody but the gateway."""

from tests.security.attacks.attack import HARMLESS, REFUSED, attack

ATTACKS = (
    attack("TCP to a listener", REFUSED, """
        socket.create_connection(("127.0.0.1", aim["port"]), 1)
        breach("connected")
    """),
    attack("TCP over IPv6", REFUSED, """
        try:
            socket.socket(socket.AF_INET6).connect(("::1", aim["port"]))
        except ConnectionRefusedError:
            breach("there is an answer")
    """),
    attack("a server of its own", REFUSED, """
        socket.create_server(("127.0.0.1", 0))
        breach("listening")
    """),
    attack("a datagram", REFUSED, """
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", aim["udp"]))
        breach("sent")
    """),
    attack("a named Unix socket", REFUSED, """
        socket.socket(socket.AF_UNIX).connect(aim["unix"])
        breach("connected")
    """),
    attack("an abstract Unix socket", REFUSED, r"""
        socket.socket(socket.AF_UNIX).connect("\0" + aim["abstract"])
        breach("connected")
    """),
    attack("every family and kind of socket", REFUSED, """
        def opening(family, kind):
            return lambda: (family, kind, socket.socket(family, kind).close())
        return refused(*(opening(f, k) for f in range(46) for k in (1, 2, 3, 5)))
    """),
    attack("netlink, to see the machine's network", REFUSED, """
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0))
        breach("bound")
    """),
    attack("packets past the network stack", REFUSED, """
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300)
        breach("opened")
    """),
    attack("a pair of sockets", REFUSED, """
        socket.socketpair()
        breach("opened")
    """),
    attack("name resolution", "gaierror", """
        socket.getaddrinfo("localhost.", 80)
        breach("resolved")
    """),
    attack("HTTP", "urlopen error|refused", """
        import urllib.request
        urllib.request.urlopen(f"http://127.0.0.1:{aim['port']}/", timeout=0.5)
    """),
    attack("a socket through io_uring", REFUSED, """
        call(aim, "io_uring_setup", 4, ctypes.create_string_buffer(120))
        breach("a ring")
    """),
    attack("turning the channel to somebody else", REFUSED, """
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    break
            except OSError:
                pass
        channel = libc.dup(descriptor)
        address = struct.pack("=HH4s8x", 2, socket.htons(aim["port"]), bytes([127, 0, 0, 1]))
        call(aim, "connect", channel, address, 16)
        breach("connected")
    """),
    attack("sending descriptors through the channel", REFUSED, """
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    break
            except OSError:
                pass
        data = ctypes.create_string_buffer(b"x", 1)
        vector = struct.pack("=QQ", ctypes.addressof(data), 1)
        text = ctypes.create_string_buffer(vector, len(vector))
        rights = struct.pack("=Qiii4x", 20, socket.SOL_SOCKET, 1, descriptor)
        control = ctypes.create_string_buffer(rights, len(rights))
        header = struct.pack("=QI4xQQQQi4x", 0, 0, ctypes.addressof(text), 1,
                             ctypes.addressof(control), 24, 0)
        call(aim, "sendmsg", descriptor, header, 0)
        breach("sent")
    """),
    attack("descriptors that were left open", HARMLESS, """
        kinds = []
        for descriptor in range(1024):
            try:
                mode = os.fstat(descriptor).st_mode
            except OSError:
                continue
            if stat.S_ISSOCK(mode):
                kinds.append("channel")
            elif os.fstat(descriptor).st_ino == os.stat(aim["snapshot"]).st_ino:
                if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                    breach("the snapshot can be written")
            elif not (stat.S_ISCHR(mode) and os.fstat(descriptor).st_rdev == os.makedev(1, 3)):
                breach(f"descriptor {descriptor} has mode {mode:o}")
        if kinds != ["channel"]:
            breach(kinds)
    """),
)  # fmt: skip
