"""The gate every pack passes before an agent sees it."""

from environments.check.packs import check_pack, check_packs
from environments.check.report import CheckReport, Finding

__all__ = ["CheckReport", "Finding", "check_pack", "check_packs"]
