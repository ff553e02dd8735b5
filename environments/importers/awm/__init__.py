"""Agent World Model's environments as packs of the runtime ``fastapi``."""

from environments.importers.awm.source import AwmSource, sources

__all__ = ["AwmSource", "sources"]
