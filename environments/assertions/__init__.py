"""The vocabulary in which tasks say what must, may and must not have changed."""

from environments.assertions.judgement import GATE_WEIGHT, Assertions
from environments.assertions.rows import Lookup, TableInfo

__all__ = ["GATE_WEIGHT", "Assertions", "Lookup", "TableInfo"]
