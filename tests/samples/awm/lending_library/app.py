import os
from datetime import datetime, timedelta
from typing import Dict, List, Optional

import uvicorn, json
from fastapi import APIRouter, Body, FastAPI, HTTPException, Query
from pydantic import BaseModel, Field
from sqlalchemy import event, select, create_engine as make_engine
from sqlalchemy.engine import Engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, Session

engine = make_engine(os.environ.get("DATABASE_PATH", "sqlite:///library.db"), echo=False)


@event.listens_for(Engine, "connect")
def pragmas(connection, record):
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.close()


class Base(DeclarativeBase):
    pass


class Book(Base):
    __tablename__ = "books"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    copies: Mapped[int]


class Loan(Base):
    __tablename__ = "loans"
    book_id: Mapped[int] = mapped_column(primary_key=True)
    member: Mapped[str] = mapped_column(primary_key=True)
    due: Mapped[str]


class Member(BaseModel):
    name: str
    card: Optional[str] = None


class Wish(BaseModel):
    member: Member
    titles: List[str] = Field(min_length=1)
    marks: Dict[str, int] = {}


app = FastAPI()
router = APIRouter(prefix="/api/v1", tags=["books"])


@app.on_event("startup")
def seed():
    with Session(engine) as session:
        if session.scalar(select(Book).where(Book.id == 1)) is None:
            session.add(Book(id=1, title="The first", copies=1))
            session.commit()


@router.get("/books", operation_id="searchBooks")
def search(q: str = Query("", description="Part of the title"), limit: int = Query(10, le=50)):
    with Session(engine) as session:
        found = session.scalars(select(Book).where(Book.title.contains(q)).limit(limit)).all()
        return [{"id": book.id, "title": book.title, "copies": book.copies} for book in found]


@router.put("/books/{book_id}/loans/{member}", operation_id="books.lend")
async def lend(book_id: int, member: str, days: int = Query(14, ge=1), note: str = Body("", embed=True)):
    due = (datetime.utcnow() + timedelta(days=days)).strftime("%Y-%m-%d")
    with Session(engine) as session, session.begin():
        session.add(Loan(book_id=book_id, member=member, due=due))
        session.flush()
        book = session.get(Book, book_id)
        if book.copies == 0:
            raise HTTPException(409, "no copy is left")
        book.copies -= 1
    return {"due": due, "note": note}


@router.post("/wishes", operation_id="wish")
async def wish(body: Wish):
    return {"member": body.member.name, "count": len(body.titles), "marks": json.dumps(body.marks)}


@router.post("/lists", operation_id="sort_titles")
async def sort_titles(body: List[str] = Body(...)):
    return sorted(body)


app.include_router(router)
uvicorn_options = {"host": "127.0.0.1"}

if __name__ == "__main__":
    uvicorn.run(app, **uvicorn_options)
