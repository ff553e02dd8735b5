"""Twenty tools: one that writes, nineteen that read."""

from typing import Annotated

from pydantic import Field

from environments.authoring import Database, ToolError, tool


@tool(read_only=False)
def take(
    db: Database,
    text: Annotated[str, Field(description="Why it is taken")],
    quantity: Annotated[int, Field(ge=1, description="How many")] = 1,
    note: Annotated[bool, Field(description="Whether the second shelf is told too")] = False,
) -> dict:
    """Take articles out of the first shelf: one write, one read."""
    take = "UPDATE t0 SET quantity = quantity - ?, status = ? WHERE id = 57"
    if not db.run(take, quantity, text):
        raise ToolError("NO_SUCH_ARTICLE", "article 57 is gone")
    if note:
        db.run("UPDATE t1 SET status = ? WHERE id = 57", text)
    return db.one("SELECT id, quantity, status FROM t0 WHERE id = 57")


def _declare(number: int):
    @tool(read_only=True, name=f"look_{number}")
    def look(
        db: Database,
        id: Annotated[int, Field(ge=1, description="Which article")],
        text: Annotated[str, Field(description="A note")] = "",
    ) -> dict:
        """Look at one article."""
        row = db.one(f"SELECT * FROM t{number} WHERE id = ?", id)
        if row is None:
            raise ToolError("NO_SUCH_ARTICLE", f"shelf {number} has no article {id}")
        return row

    return look


for _number in range(1, 20):
    globals()[f"look_{_number}"] = _declare(_number)
