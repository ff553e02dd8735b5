"""The tools of the library. Only the standard library, pydantic and the kit may be imported."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from environments.authoring import Database, Row, ToolError, new_id, now, timestamp, tool

LOAN_DAYS = 21

MemberId = Annotated[str, Field(description="Id of a member, e.g. M-1041")]
BookId = Annotated[str, Field(description="Id of a book, e.g. B-0210")]


@tool(read_only=True)
def find_books(
    db: Database,
    query: Annotated[str, Field(min_length=2, description="Words in the title or the author")],
    limit: Annotated[int, Field(ge=1, le=20)] = 10,
) -> dict:
    """Search the shelves by title or author; says how many copies are in."""
    rows = db.rows(
        "SELECT id, title, author, year, copies FROM books"
        " WHERE title LIKE :like OR author LIKE :like ORDER BY title LIMIT :limit",
        like=f"%{query}%",
        limit=limit,
    )
    return {"books": [{**row, "available": row["copies"] - _lent(db, row["id"])} for row in rows]}


@tool(read_only=True)
def find_members(
    db: Database,
    query: Annotated[str, Field(min_length=2, description="Part of a name or an email address")],
) -> dict:
    """Search members by name or email address."""
    return {
        "members": db.rows(
            "SELECT id, name, email, blocked FROM members"
            " WHERE name LIKE :like OR email LIKE :like ORDER BY id",
            like=f"%{query}%",
        )
    }


@tool(read_only=True)
def list_loans(db: Database, member_id: MemberId) -> dict:
    """The open loans of a member, the first due first."""
    _member(db, member_id)
    return {
        "loans": db.rows(
            "SELECT loans.id, book_id, title, lent_at, due_on FROM loans"
            " JOIN books ON books.id = book_id"
            " WHERE member_id = ? AND returned_at IS NULL ORDER BY due_on, loans.id",
            member_id,
        )
    }


@tool(read_only=False)
def lend_book(db: Database, member_id: MemberId, book_id: BookId) -> dict:
    """Lend one copy of a book to a member for three weeks."""
    member = _member(db, member_id)
    if member["blocked"]:
        raise ToolError("MEMBER_BLOCKED", f"{member_id} has overdue books", member_id=member_id)
    book = db.one("SELECT id, title, copies FROM books WHERE id = ?", book_id)
    if book is None:
        raise ToolError("BOOK_NOT_FOUND", f"there is no book {book_id}", book_id=book_id)
    if _lent(db, book_id) >= book["copies"]:
        raise ToolError("NO_COPY_IN", f"all copies of {book['title']} are lent", book_id=book_id)
    loan = {
        "id": new_id("loan", prefix="L-"),
        "member_id": member_id,
        "book_id": book_id,
        "lent_at": timestamp(),
        "due_on": (now() + timedelta(days=LOAN_DAYS)).strftime("%Y-%m-%d"),
    }
    db.insert("loans", **loan)
    db.run("UPDATE members SET last_seen_at = ? WHERE id = ?", timestamp(), member_id)
    return {"loan": loan}


@tool(read_only=False)
def return_book(
    db: Database, loan_id: Annotated[str, Field(description="Id of an open loan, e.g. L-7701")]
) -> dict:
    """Take a lent book back."""
    loan = db.one("SELECT * FROM loans WHERE id = ?", loan_id)
    if loan is None:
        raise ToolError("LOAN_NOT_FOUND", f"there is no loan {loan_id}", loan_id=loan_id)
    if loan["returned_at"] is not None:
        raise ToolError("ALREADY_RETURNED", f"{loan_id} was returned on {loan['returned_at']}")
    db.run("UPDATE loans SET returned_at = ? WHERE id = ?", timestamp(), loan_id)
    return {"loan_id": loan_id, "late": loan["due_on"] < timestamp()[:10]}


def _member(db: Database, member_id: str) -> Row:
    member = db.one("SELECT id, blocked FROM members WHERE id = ?", member_id)
    if member is None:
        raise ToolError("MEMBER_NOT_FOUND", f"there is no member {member_id}", member_id=member_id)
    return member


def _lent(db: Database, book_id: str) -> int:
    return db.scalar(
        "SELECT count(*) FROM loans WHERE book_id = ? AND returned_at IS NULL", book_id
    )
