import requests
from mcp.server.fastmcp import FastMCP

mcp = FastMCP(name="NewsWire")


class NewsWireAPI:
    def load_scenario(self, scenario: dict) -> None:
        self.base = scenario.get("base", "")

    def save_scenario(self) -> dict:
        return {"base": self.base}


api = NewsWireAPI()


@mcp.tool()
def headlines() -> dict:
    """What is new."""
    return requests.get(api.base).json()
