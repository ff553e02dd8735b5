from environments.authoring import Database, ToolError, tool


@tool(read_only=True)
def find_parcels(db: Database, addressee: str) -> dict:
    """Parcels for a person, by part of the name."""
    like = f"%{addressee}%"
    return {"parcels": db.rows("SELECT * FROM parcels WHERE addressee LIKE ? ORDER BY id", like)}


@tool(read_only=False)
def hand_out(db: Database, parcel_id: str) -> dict:
    """Hand a parcel to its addressee."""
    parcel = db.one("SELECT * FROM parcels WHERE id = ?", parcel_id)
    if parcel is None:
        raise ToolError("PARCEL_NOT_FOUND", f"there is no parcel {parcel_id}")
    if parcel["status"] != "held":
        raise ToolError("ALREADY_HANDED_OUT", f"{parcel_id} was handed out before")
    db.run("UPDATE parcels SET status = 'handed_out' WHERE id = ?", parcel_id)
    return {"parcel_id": parcel_id, "status": "handed_out"}


@tool(read_only=False)
def add_note(db: Database, parcel_id: str, body: str) -> dict:
    """Stick a note on a parcel."""
    if db.one("SELECT id FROM parcels WHERE id = ?", parcel_id) is None:
        raise ToolError("PARCEL_NOT_FOUND", f"there is no parcel {parcel_id}")
    db.run("INSERT INTO notes (parcel_id, body) VALUES (?, ?)", parcel_id, body)
    return {"parcel_id": parcel_id, "body": body}
