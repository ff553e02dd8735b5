"""The gate every pack passes before an agent sees it."""

from environments.check.gate import check_pack
from environments.check.report import CheckReport, Finding

__all__ = ["CheckReport", "Finding", "check_pack"]
