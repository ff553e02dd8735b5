"""Holds requirements.lock against the known vulnerabilities: ``python -m tests.security.audit``.

Exits with 0 if none is known of any of them, with 1 if one is, with 75 if the service that knows
could not be asked about all of them, with 2 if pip-audit failed otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
CLEAN, VULNERABLE, FAILED, NOT_REACHABLE = 0, 1, 2, 75
UNREACHABLE = (
    "ConnectionError", "ConnectTimeout", "ReadTimeout", "ServiceError", "Max retries exceeded",
    "Could not connect", "Tried to connect", "Temporary failure in name resolution",
)  # fmt: skip
"""What pip-audit's complaint holds when its service does not answer, or answers nonsense."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="envhub-audit-") as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip_audit", "--requirement", str(LOCK)),
                *("--require-hashes", "--disable-pip", "--progress-spinner", "off"),
                *("--format", "json", "--output", str(report)),
            ],
            check=False, capture_output=True, text=True, timeout=1200,
        )  # fmt: skip
        said = report.read_text() if report.exists() else ""
    return verdict(done.returncode, said, done.stderr)


def verdict(code: int, report: str, complaint: str) -> int:
    """The exit code, and what there is to say about it, from how pip-audit ended."""
    if not report:
        if any(word in complaint for word in UNREACHABLE):
            print("audit: the service of known vulnerabilities cannot be reached; nothing is known")
            print("\n".join(complaint.strip().splitlines()[-3:]), file=sys.stderr)
            return NOT_REACHABLE
        print(f"audit: pip-audit failed ({code})\n{complaint}", file=sys.stderr)
        return FAILED
    packages = json.loads(report)["dependencies"]
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    found = [
        (each["name"], each["version"], flaw["id"], ", ".join(flaw["fix_versions"]) or "no fix yet")
        for each in packages
        for flaw in each.get("vulns", ())
    ]
    for name, version, flaw, fixes in found:
        print(f"audit: {name} {version} has {flaw} (fixed in: {fixes})")
    asked = len(packages) - len(skipped)
    print(f"audit: {len(found)} known vulnerabilities in {asked} of {len(packages)} packages")
    if skipped:
        some = ", ".join(skipped[:10]) + (" and others" if len(skipped) > 10 else "")
        print(f"audit: nothing could be learned about {some}: is the service reachable?")
    if found:
        return VULNERABLE
    return NOT_REACHABLE if skipped else CLEAN


if __name__ == "__main__":
    sys.exit(main())
