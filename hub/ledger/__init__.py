"""The record of every episode: on disk before a call is answered, or (durability none) nowhere."""

from hub.ledger.disk import Ledger
from hub.ledger.index import EpisodeRow, Records, RowQuery, Seat
from hub.ledger.memory import NullJournal

__all__ = ["EpisodeRow", "Ledger", "NullJournal", "Records", "RowQuery", "Seat"]
