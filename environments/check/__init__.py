"""The gate every pack passes before an agent sees it; a lint for reward hacks; a quality report."""

from environments.check.packs import (
    assess_packs,
    check_pack,
    check_packs,
    checking,
    known_report,
    lint_packs,
)
from environments.check.quality import QualityReport
from environments.check.report import CheckReport, Finding

__all__ = [
    "CheckReport",
    "Finding",
    "QualityReport",
    "assess_packs",
    "check_pack",
    "check_packs",
    "checking",
    "known_report",
    "lint_packs",
]
