"""The vocabulary in which tasks say what must, may and must not have changed."""

from environments.assertions.database import DatabaseState
from environments.assertions.evidence import (
    OK,
    Evidence,
    ProbeCall,
    ProbeResult,
    State,
    TraceStep,
)
from environments.assertions.history import split
from environments.assertions.judgement import Assertions
from environments.assertions.verdicts import GATE_WEIGHT
from environments.assertions.words import TableInfo

__all__ = [
    "GATE_WEIGHT",
    "OK",
    "Assertions",
    "DatabaseState",
    "Evidence",
    "ProbeCall",
    "ProbeResult",
    "State",
    "TableInfo",
    "TraceStep",
    "split",
]
