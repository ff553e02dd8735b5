"""The fastapi runtime: a ``tools.py`` that is a FastAPI application over SQLAlchemy.

Nothing here imports either of them before it is used: only one of the two zygotes has them.
"""

from environments.runtimes.fastapi.program import FastApiProgram, load, warm_up

__all__ = ["FastApiProgram", "load", "warm_up"]
