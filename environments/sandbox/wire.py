"""What gateway, zygote and worker say to one another.

*Gateway and worker* speak frames over a socket: four bytes of length (big endian), then one msgpack
message. Requests come from the gateway and are trusted. Every answer is a ``Reply``, and the
gateway trusts nothing in it: whatever a pack's code could have had a hand in is JSON inside it, so
no extension type, no ``datetime`` and no bytes can reach the gateway as a value.

*Gateway and zygote* speak fixed records (``CONTROL``: operation, worker number, value). The record
that asks for a worker carries the worker's end of its socket.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, Final

import msgspec

from environments.assertions import ProbeResult, TableInfo
from environments.keepable import require_keepable
from environments.spec import ChangePolicy, CodeVerifier, Runtime, ToolSpec
from environments.trajectory import Actor, Component, Step, StepError
from snapshots.pages import PageDelta
from snapshots.store import Recipe

HEADER_BYTES: Final = 4
MAX_PAYLOAD_BYTES: Final = 2 << 20
"""Of what is decoded by the gateway's one thread; pages, which are not, may take more."""
WRITES: Final = "$writes"
"""The counter in ``Moment.counters`` of calls that changed something; it feeds ``random``."""


class _Message(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Base of what goes through a socket."""


# --- shared with the rest of the package ------------------------------------------------------


class Moment(msgspec.Struct, frozen=True):
    """Where an episode stands besides its rows: virtual clock, seed, and how many ids it made."""

    clock_ms: int
    seed: int
    counters: dict[str, int]


class Description(msgspec.Struct, frozen=True):
    """What a pack's code and schema offer."""

    tools: tuple[ToolSpec, ...]
    tables: dict[str, TableInfo]


class Breed(enum.StrEnum):
    """What a zygote, and so each of its workers, has imported."""

    PLAIN = "plain"
    """What packs of our own need."""
    IMPORTS = "imports"
    """SQLAlchemy and FastAPI as well."""


class WorkerLimits(_Message, frozen=True):
    """What one worker may use; applied before any code of the pack is loaded."""

    memory_bytes: int
    """Address space beyond what the worker has when it is forked."""
    file_bytes: int = 0
    open_files: int = 128
    niceness: int = 0
    readable: tuple[str, ...] = ()
    """Files of its own that it may read, beside the interpreter and its packages."""
    writable: tuple[str, ...] = ()
    """Folders that it may write in."""
    without: tuple[str, ...] = ()
    """Layers that are left out."""


# --- requests ---------------------------------------------------------------------------------


class View(_Message, frozen=True):
    """A branch as the worker is to see it, told as the difference from what it knows of it."""

    slot: int
    pages: dict[int, bytes]
    dropped: tuple[int, ...]
    size_bytes: int
    base_pages: int
    forget: tuple[int, ...] = ()
    """Slots the gateway no longer counts on; the worker drops them first."""


class Script(_Message, frozen=True):
    """Statements the world runs at a point of the virtual clock; ``event`` names a pack's event."""

    statements: tuple[str, ...]
    at_ms: int
    event: str | None = None


class Request(_Message, frozen=True):
    """Base of the requests; the reply carries the same ``id``."""

    id: int


class LoadTools(Request, frozen=True, tag=1):
    """Confine yourself, open the snapshot, load the pack's code. Answered with a ``Loaded``."""

    limits: WorkerLimits
    pack_path: str
    runtime: Runtime
    snapshot_path: str
    snapshot_digest: str
    clock_ms: int
    """What time it is while the code is loaded."""
    allow_ddl: bool
    foreign_keys: bool
    keep_on_error: bool
    step_ms: int
    output_bytes: int
    max_frame_bytes: int


class LoadScorer(Request, frozen=True, tag=2):
    """Confine yourself and open the snapshot; no code of the pack. Answered with a ``Loaded``."""

    limits: WorkerLimits
    snapshot_path: str
    snapshot_digest: str


class LoadBuilder(Request, frozen=True, tag=3):
    """Confine yourself, to build a snapshot later. Answered with a ``Loaded``."""

    limits: WorkerLimits


class Describe(Request, frozen=True, tag=4):
    """Say which tools and tables there are. Answered with a ``Description``."""


class Call(Request, frozen=True, tag=5):
    """Run a tool. Answered with a ``Report``."""

    view: View
    moment: Moment
    tool: str
    arguments: bytes


class Play(Request, frozen=True, tag=6):
    """Run statements of the world (events, a task's start). Answered with a ``Report``."""

    view: View
    moment: Moment
    scripts: tuple[Script, ...]


class Score(Request, frozen=True, tag=7):
    """Judge a run by assertions. Answered with a list of ``Component``; with ``rebuild`` the delta
    leads from the initial state to the final one as its rows alone make it."""

    initial: View
    final: View
    clock_ms: int
    verifier: bytes
    """JSON, as the task has it; empty to judge nothing."""
    case: bytes
    """JSON of a ``Case``."""
    rebuild: bool


class Build(Request, frozen=True, tag=8):
    """Write the database of a recipe to a path. Answered with ``null``."""

    recipe: Recipe
    path: str


class LoadExaminer(Request, frozen=True, tag=9):
    """Confine yourself, to run the pack's own verifiers later. Answered with a ``Loaded``."""

    limits: WorkerLimits
    pack_path: str
    snapshot_path: str
    snapshot_digest: str
    output_bytes: int
    documented: bool = False
    """Whether the pack's tables are a document; see ``environments.documents``."""


class Examine(Request, frozen=True, tag=10):
    """Run a verifier of the pack's own. Answered with a ``Findings``."""

    initial: View
    final: View
    clock_ms: int
    code: CodeVerifier
    paths: tuple[str, str] | None
    """The two states as files, for those kinds that want them."""
    answer: str | None
    trajectory: bytes
    """JSON of a list of ``Step``."""


AnyRequest = (
    LoadTools
    | LoadScorer
    | LoadBuilder
    | LoadExaminer
    | Describe
    | Call
    | Play
    | Score
    | Build
    | Examine
)


# --- replies ----------------------------------------------------------------------------------


class Reply(_Message, frozen=True):
    """The one message a worker sends."""

    id: int
    refused: bool
    """The operation could not be done at all; ``payload`` is a ``StepError``."""
    payload: bytes
    """JSON of the kind that the request says."""
    delta: PageDelta | None = None


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run is judged by beside its two states; the gateway's own record."""

    steps: tuple[Step, ...]
    ignored: ChangePolicy = ChangePolicy()
    answer: str | None = None
    probes: tuple[ProbeResult, ...] = ()


class Findings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a verifier of the pack's own found."""

    components: tuple[Component, ...]
    output: str = ""


class Loaded(msgspec.Struct, frozen=True):
    active: tuple[str, ...]
    missing: tuple[str, ...]


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """The net changes of one actor, as the worker tells them; see ``trajectory.Change``."""

    actor: Actor
    changes: msgspec.Raw
    event: str | None = None


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call or the world did. ``moment`` is None where it is what it was."""

    result: Any = None
    error: StepError | None = None
    commits: tuple[Claim, ...] = ()
    moment: Moment | None = None
    output: str = ""
    spoiled: bool = False
    """The worker must not serve again (a thread is alive, a connection is unclean)."""


decode_request = msgspec.msgpack.Decoder(AnyRequest).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
decode_loaded = msgspec.json.Decoder(Loaded).decode
decode_description = msgspec.json.Decoder(Description).decode
decode_report = msgspec.json.Decoder(Report).decode
decode_components = msgspec.json.Decoder(tuple[Component, ...]).decode
decode_case = msgspec.json.Decoder(Case).decode
decode_findings = msgspec.json.Decoder(Findings).decode
decode_nothing = msgspec.json.Decoder(None).decode
decode_error = msgspec.json.Decoder(StepError).decode

_encoder = msgspec.msgpack.Encoder()


def encode_frame(message: Request | Reply) -> bytearray:
    """``message`` with its length in front."""
    frame = bytearray(HEADER_BYTES)
    _encoder.encode_into(message, frame, HEADER_BYTES)
    frame[:HEADER_BYTES] = (len(frame) - HEADER_BYTES).to_bytes(HEADER_BYTES, "big")
    return frame


def accepted(id: int, payload: Any, delta: PageDelta | None = None) -> bytearray:
    """The frame of an answer; ``payload`` becomes JSON. Raises ``ValueError`` for
    what ``check_payload`` refuses."""
    encoded = msgspec.json.encode(payload)
    check_payload(encoded)
    return encode_frame(Reply(id=id, refused=False, payload=encoded, delta=delta))


def check_payload(payload: bytes) -> None:
    """Refuse JSON that would keep the gateway from others, or that could not be kept.

    Raises ``ValueError``.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"the result and changed rows take {len(payload)} bytes, "
            f"the most is {MAX_PAYLOAD_BYTES}"
        )
    require_keepable(payload)


def frame_bytes(start: bytes | bytearray) -> int:
    """How long the frame is that begins with ``start`` (at least four bytes), header included."""
    return HEADER_BYTES + int.from_bytes(start[:HEADER_BYTES], "big")


# --- gateway and zygote -----------------------------------------------------------------------


class Control(enum.IntEnum):
    """Operations of the records between gateway and zygote, with the meaning of ``value``."""

    READY = 1
    """Zygote: everything is imported (its process id)."""
    SPAWN = 2
    """Gateway: fork a worker; the record carries its socket."""
    KILL = 3
    """Gateway: SIGKILL that worker if it still lives."""
    SPAWNED = 4
    """Zygote: the worker's process id."""
    EXITED = 5
    """Zygote: a worker is gone (its exit code, or minus the signal that ended it)."""
    FAILED = 6
    """Zygote: no worker could be forked (errno)."""
    LACKING = 7
    """Zygote: it is to hold packages that are not installed; it ends."""


CONTROL: Final = struct.Struct("!iii")
