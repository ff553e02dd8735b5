from mcp.server.fastmcp import FastMCP

mcp = FastMCP(name="Counter")


class CounterAPI:
    def load_scenario(self, scenario: dict) -> None:
        self.count = scenario.get("count", 0)

    def save_scenario(self) -> dict:
        return {"count": self.count}


system = CounterAPI()


@mcp.tool()
def count() -> int:
    """Count one more."""
    system.count += 1
    return system.count
