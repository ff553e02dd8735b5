"""Lying to the gateway, and turning the worker's own code against it."""

import textwrap

from tests.security.attacks.attack import ENDED, HARMLESS, REJECTED, Attack, attack, module

CHANNEL = """
def channel():
    for descriptor in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return descriptor
        except OSError:
            pass

def send(data):
    while data:
        data = data[os.write(channel(), data):]

def reply(id, payload=b"{}", delta=None, refused=False):
    return bytes(wire.encode_frame(
        wire.Reply(id=id, refused=refused, payload=payload, delta=delta)))

CALL = 3
"What the arena asks as the third thing: load, take, attack."

@tool(read_only=False)
def attack(db: Database, aim: dict) -> Any:
    "Speak for the worker, then wait."
    send(forged(aim))
    signal.pause()
"""


def forgery(name: str, answer: str, ends: str = REJECTED) -> Attack:
    """An attack that sends something else than the worker's answer."""
    body = textwrap.indent(textwrap.dedent(answer).strip("\n"), "    ")
    return Attack(name, ends, f"{CHANNEL}\ndef forged(aim):\n{body}\n")


ATTACKS = (
    forgery("noise for an answer", """
        return b"\\xff" * 16384
    """),
    forgery("a frame larger than any", """
        return (2**32 - 1).to_bytes(4, "big") + bytes(100_000)
    """),
    forgery("a frame that never ends", """
        return (1 << 20).to_bytes(4, "big") + bytes(1000)
    """, "^ToolTimedOut"),
    forgery("an answer to another question", "return reply(CALL + 1)"),
    forgery("an answer to an earlier question", "return reply(CALL - 1)"),
    forgery("two answers", "return reply(CALL) + reply(CALL)", REJECTED + "|" + HARMLESS),
    forgery("an answer that is no JSON", "return reply(CALL, b'{')"),
    forgery("an answer nested without end", "return reply(CALL, b'[' * 1_000_000)"),
    forgery("a pickle for an answer", """
        import pickle
        pickled = pickle.dumps(os.system)
        return len(pickled).to_bytes(4, "big") + pickled
    """),
    forgery("a pickle inside an answer", """
        import pickle
        return reply(CALL, pickle.dumps(os.system))
    """),
    forgery("a page outside the branch", """
        return reply(CALL, delta=PageDelta({10**6: bytes(4096)}, aim["size"], 1))
    """),
    forgery("a negative page", """
        return reply(CALL, delta=PageDelta({-1: bytes(4096)}, aim["size"], 1))
    """),
    forgery("a page of another size", """
        return reply(CALL, delta=PageDelta({1: bytes(4095)}, aim["size"], 1))
    """),
    forgery("a database of another kind", """
        return reply(CALL, delta=PageDelta({0: bytes(4096)}, aim["size"], 1))
    """),
    forgery("a huge database", """
        return reply(CALL, delta=PageDelta({}, 1 << 60, 1))
    """),
    forgery("pages in no time", """
        pages = aim["size"] // 4096
        return reply(CALL, delta=PageDelta({1: bytes(4096)}, aim["size"], pages))
    """),
    forgery("changes without pages", """
        return reply(CALL, b'{"commits":[{"actor":"agent","changes":{}}]}')
    """),
    forgery("another time", """
        return reply(CALL, b'{"moment":{"clock_ms":1,"seed":0,"counters":{}}}')
    """),
    forgery("somebody else to blame", """
        blame = b'{"error":{"kind":"infrastructure","code":"X","message":""}}'
        return reply(CALL, blame)
    """),
    forgery("a forged number that no record can hold", """
        return reply(CALL, b'{"result":[1' + b"0" * 30 + b"]}")
    """),
    forgery("a forged nesting that no client can read", """
        return reply(CALL, b'{"result":' + b"[" * 240 + b"]" * 240 + b"}")
    """),
    forgery("counters without end", """
        counters = {str(number): number for number in range(5000)}
        moment = {"clock_ms": 1767603660000, "seed": 0, "counters": counters}
        return reply(CALL, json.dumps({"moment": moment}).encode())
    """),
    forgery("extension types", r"""
        message = b"\x94" + bytes([CALL]) + b"\xc2\xc7\x0c\xff" + bytes(12) + b"\xc0"
        return len(message).to_bytes(4, "big") + message
    """),
    attack("speaking while another is asked", "^returned", """
        # Done as a daemon would: the answer to this call is honest, the next word is not.
        def speak(*_):
            for descriptor in range(3, 64):
                try:
                    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                        os.write(descriptor, b"hello")
                except OSError:
                    pass
        signal.signal(signal.SIGALRM, speak)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        return "armed"
    """),
    attack("sys.exit", ENDED, "sys.exit(0)"),
    attack("os._exit", ENDED, "os._exit(0)"),
    attack("abort", ENDED, "os.abort()"),
    attack("a segmentation fault", ENDED, "ctypes.string_at(0)"),
    attack("an illegal instruction", ENDED + "|OSError", """
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes(8) if os.uname().machine == "aarch64" else bytes.fromhex("0f0b"))
        ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    """),
    attack("closing every descriptor", ENDED + "|^ToolTimedOut", """
        os.closerange(0, 1024)
        signal.pause()
    """),
    attack("closing its half of the channel", ENDED + "|^FrameRejected|^TOOL_CRASHED: OSError", """
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    socket.socket(fileno=descriptor).shutdown(socket.SHUT_WR)
            except OSError as error:
                failed = error
        raise failed
    """),
    attack("eating the next question", "^returned|^TOOL_CRASHED|^ToolTimedOut", """
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    ready = select.select([descriptor], [], [], 0)[0]
                    return repr(os.read(descriptor, 10)) if ready else "dry"
            except OSError:
                pass
    """),
    attack("an object that resists", "^(TOOL_CRASHED|BAD_RESULT)", """
        class Evil:
            def __getattribute__(self, name):
                raise SystemError(name)
            def __reduce__(self):
                return os.system, ("true",)
        return Evil()
    """),
    attack("details that resist", "^(TOOL_CRASHED|BAD_RESULT|WorkerExited)", """
        class Evil:
            def __repr__(self):
                raise BaseException("no")
            __str__ = __repr__
        raise ToolError("X", "y", evil=Evil())
    """),
    attack("numbers no record can hold", "^BAD_RESULT: ", """
        return [10 ** 400, -10 ** 400, 1e308 * 10, float("nan"), 2 ** 63, 2 ** 64]
    """),
    attack("the interpreter's settings", HARMLESS, """
        gc.disable()
        gc.freeze()
        sys.setswitchinterval(1000)
        sys.settrace(lambda *_: None)
        return "set"
    """),
    module("the authoring kit turned round", REJECTED, """
    import environments.authoring as kit
    import environments.sandbox.stage as stage

    @tool(read_only=False)
    def attack(db: Database, aim: dict) -> Any:
        "Make every error the infrastructure's, every write allowed, every clock its own."
        kit.now = lambda: 0
        kit.ToolError = ValueError
        stage.ReadOnlyViolated = KeyError
        stage.step_error = lambda raised, place: stage.StepError(
            kind="infrastructure", code="NOT_ME", message=str(raised))
        stage.Stage._require_no_threads = lambda self: None
        raise RuntimeError("whose fault is it?")
    """),
    module("builtins turned round", ENDED, """
    @tool(read_only=False)
    def attack(db: Database, aim: dict) -> Any:
        "Leave the builtins of this process unusable."
        for name in ("len", "isinstance", "dict", "open", "range", "print"):
            setattr(builtins, name, lambda *_, **__: os.abort())
        return "turned"
    """),
)  # fmt: skip
