from typing import Dict, List, Optional
from datetime import datetime
import random
import uuid

from mcp.server.fastmcp import FastMCP
from pydantic import BaseModel, Field


class Book(BaseModel):
    title: str
    copies: int = Field(default=1, ge=0)
    tags: List[str] = Field(default_factory=list)


class Loan(BaseModel):
    book: str
    member: str
    since: datetime
    fee: float = 0.0


class DeskScenario(BaseModel):
    books: Dict[str, Book] = Field(default_factory=dict)
    loans: Dict[int, Loan] = Field(default_factory=dict)
    waiting: Dict[str, List[str]] = Field(default_factory=dict)
    notes: List[Dict[str, str]] = Field(default_factory=list)
    motto: Optional[str] = None
    random_seed: int = 7
    current_time: str = Field(..., pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$")


class LendingDeskAPI:
    opened = []

    def __init__(self):
        self.books: Dict[str, Book] = {}
        self.loans: Dict[int, Loan] = {}
        self.waiting: Dict[str, List[str]] = {}
        self.notes: List[Dict[str, str]] = []
        self.motto: Optional[str] = None
        self.random_seed = 7
        self.current_time = ""
        self.asked = 0

    def load_scenario(self, scenario: dict) -> None:
        model = DeskScenario(**scenario)
        for name in DeskScenario.model_fields:
            setattr(self, name, getattr(model, name))
        random.seed(self.random_seed)

    def save_scenario(self) -> dict:
        return {
            "books": {k: v.model_dump() for k, v in self.books.items()},
            "loans": self.loans,
            "waiting": self.waiting,
            "notes": self.notes,
            "motto": self.motto,
            "random_seed": self.random_seed,
            "current_time": self.current_time,
        }

    def search(self, text: str) -> List[dict]:
        found = []
        for key, book in self.books.items():
            if text.lower() in book.title.lower():
                found.append({"id": key, **book.model_dump()})
        return found

    def lend(self, book: str, member: str) -> dict:
        held = self.books[book]
        if held.copies == 0:
            self.waiting.setdefault(book, []).append(member)
            raise ValueError(f"{held.title} is lent out; {member} waits for it")
        held.copies -= 1
        number = max(self.loans, default=0) + 1
        self.loans[number] = Loan(book=book, member=member, since=self.current_time, fee=0)
        return {"loan": number, "slip": random.randint(1000, 9999)}


mcp = FastMCP(name="LendingDesk")
api = LendingDeskAPI()
_member = None


@mcp.tool()
def load_scenario(scenario: dict) -> str:
    """Load a scenario."""
    api.load_scenario(scenario)
    return "Successfully loaded scenario"


@mcp.tool()
def save_scenario() -> dict:
    """Save the scenario."""
    return api.save_scenario()


@mcp.tool()
def sign_in(member: str) -> dict:
    """Sign in at the desk; loans are made to who is signed in.

    Args:
        member (str): The member's name.
    """
    global _member
    _member = member
    api.asked += 1
    LendingDeskAPI.opened.append(member)
    return {"member": member, "session": str(uuid.uuid4()), "before": len(LendingDeskAPI.opened)}


@mcp.tool()
def search_books(text: str = "") -> List[dict]:
    """Books with a text in their title."""
    return api.search(text)


@mcp.tool()
def lend_book(book: str) -> dict:
    """Lend a book to who is signed in."""
    if _member is None:
        raise ValueError("nobody is signed in")
    return api.lend(book, _member)


@mcp.tool()
def add_note_for_the_colleagues_of_the_evening_shift(text: str) -> dict:
    """Leave a note."""
    api.notes.append({"by": _member or "?", "text": text})
    return {"notes": len(api.notes), "asked": api.asked}


@mcp.tool()
def due_date(loan: int) -> str:
    """When a loan is due."""
    return api.loans[loan].since.isofromat()


if __name__ == "__main__":
    mcp.run()
