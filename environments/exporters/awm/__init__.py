"""Packs as Agent World Model's files."""

from environments.exporters.awm.files import ExportRefused, export, require_exportable, write

__all__ = ["ExportRefused", "export", "require_exportable", "write"]
