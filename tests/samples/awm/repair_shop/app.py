import os
import random
import uuid
from datetime import datetime
from enum import Enum
from typing import List, Optional

from fastapi import Body, Depends, FastAPI, HTTPException, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Column, DateTime, Float, ForeignKey, Integer, String, create_engine, func, text
from sqlalchemy.orm import Session, declarative_base, relationship, sessionmaker

DATABASE_PATH = os.getenv("DATABASE_PATH", "sqlite:///repair_shop.db")
engine = create_engine(
    DATABASE_PATH,
    connect_args={
        "check_same_thread": False,
    },
)
SessionLocal = sessionmaker(
    autocommit=False,
    autoflush=False,
    bind=engine,
)
Base = declarative_base()


class Bike(Base):
    __tablename__ = "bikes"
    id = Column(Integer, primary_key=True)
    owner = Column(String, nullable=False)
    model = Column(String, nullable=False)
    received_at = Column(DateTime, nullable=False, default=func.now())
    jobs = relationship("Job", back_populates="bike")


class Job(Base):
    __tablename__ = "jobs"
    id = Column(Integer, primary_key=True)
    bike_id = Column(Integer, ForeignKey("bikes.id"), nullable=False)
    what = Column(String, nullable=False)
    price = Column(Float, nullable=False)
    status = Column(String, nullable=False, default="open")
    opened_at = Column(DateTime, nullable=False, default=datetime.now)
    bike = relationship("Bike", back_populates="jobs")


class Part(Base):
    __tablename__ = "parts"
    code = Column(String, primary_key=True)
    stock = Column(Integer, nullable=False)


class Note(Base):
    __tablename__ = "notes"
    id = Column(String, primary_key=True)
    text = Column(String, nullable=False)
    lot = Column(Integer)


class Status(str, Enum):
    open = "open"
    done = "done"


class JobOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    id: int
    bike_id: int
    what: str
    price: float
    status: Status
    opened_at: datetime


class JobList(BaseModel):
    jobs: List[JobOut]


class JobIn(BaseModel):
    bike_id: int = Field(..., description="Which bike", json_schema_extra={"example": 1})
    what: str = Field(..., min_length=3, description="What is to be done")
    price: float = Field(0.0, ge=0)
    status: Optional[Status] = None


app = FastAPI(title="Repair shop")
Base.metadata.create_all(engine)
board = SessionLocal()


def get_db():
    db = SessionLocal()
    try:
        yield db
    finally:
        db.close()


@app.get("/api/jobs", response_model=JobList, operation_id="list_jobs", summary="List jobs")
async def list_jobs(
    status: Optional[Status] = Query(None, description="Only those"),
    bike_ids: List[int] = Query([], description="Only of these bikes"),
):
    """All jobs, oldest first."""
    session = SessionLocal()
    query = session.query(Job)
    if status is not None:
        query = query.filter(Job.status == status.value)
    if bike_ids:
        query = query.filter(Job.bike_id.in_(bike_ids))
    jobs = query.order_by(Job.id).all()
    session.close()
    return JobList(jobs=jobs)


@app.post("/api/jobs", response_model=JobOut, status_code=201, operation_id="create_job")
async def create_job(body: JobIn = Body(...)):
    session = SessionLocal()
    job = Job(bike_id=body.bike_id, what=body.what, price=body.price)
    session.add(job)
    session.commit()
    session.refresh(job)
    session.close()
    return job


@app.patch("/api/jobs/{job_id}", response_model=JobOut, operation_id="finish_job")
def finish_job(job_id: int = Path(..., ge=1), db: Session = Depends(get_db)):
    job = db.get(Job, job_id)
    if job is None:
        raise HTTPException(status_code=404, detail=f"there is no job {job_id}")
    if job.status == "done":
        raise HTTPException(status_code=409, detail={"job": job_id, "status": job.status})
    job.status = "done"
    db.commit()
    db.refresh(job)
    return job


@app.post("/api/parts/{code}/take", operation_id="take_part")
async def take_part(code: str, quantity: int = Body(..., embed=True)):
    session = SessionLocal()
    part = session.query(Part).filter(Part.code == code).first()
    part.stock = part.stock - quantity
    session.commit()
    if part.stock < 0:
        raise RuntimeError(f"stock of {code} is below nothing")
    return {"code": code, "stock": part.stock}


@app.delete("/api/bikes/{bike_id}", operation_id="forget_bike")
async def forget_bike(bike_id: int):
    session = SessionLocal()
    session.query(Job).filter(Job.bike_id == bike_id).delete()
    session.flush()
    bike = session.query(Bike).filter(Bike.id == bike_id).one()
    session.delete(bike)
    session.commit()
    return {"forgotten": bike_id}


@app.get("/api/board", operation_id="read_the_board_of_all_notes_that_anybody_left_here")
async def read_board():
    return [{"id": note.id, "text": note.text} for note in board.query(Note).order_by(Note.id)]


@app.post("/api/board", operation_id="leave_note")
async def leave_note(text: str = Body(...), times: int = Body(1, ge=1, le=10)):
    made = [Note(id=str(uuid.uuid4()), text=text, lot=random.randint(1, 10**6)) for _ in range(times)]
    board.add_all(made)
    board.commit()
    return {"ids": [note.id for note in made], "at": datetime.now().isoformat()}


@app.get("/api/time", operation_id="tell_time")
async def tell_time():
    session = SessionLocal()
    told = session.execute(text("SELECT datetime('now')")).scalar()
    session.close()
    return {"sql": told, "python": datetime.now().strftime("%Y-%m-%d %H:%M:%S")}


@app.post("/api/jobs/{job_id}/price", operation_id="forget_to_commit")
async def forget_to_commit(job_id: int, price: float = Query(...)):
    session = SessionLocal()
    session.execute(text("UPDATE jobs SET price = :price WHERE id = :id"), {"price": price, "id": job_id})
    return {"price": session.query(Job).filter(Job.id == job_id).one().price}


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host=os.getenv("HOST", "127.0.0.1"), port=int(os.getenv("PORT", "8000")))
