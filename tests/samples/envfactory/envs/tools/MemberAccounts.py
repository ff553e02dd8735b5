from typing import Dict, List

from mcp.server.fastmcp import FastMCP
from pydantic import BaseModel, Field


class Account(BaseModel):
    member: str
    cents: int = 0
    remark: str = ""


class AccountsScenario(BaseModel):
    accounts: Dict[int, Account] = Field(default_factory=dict)
    charges: List[dict] = Field(default_factory=list)


class MemberAccountsAPI:
    def __init__(self):
        self.accounts: Dict[int, Account] = {}
        self.charges: List[dict] = []

    def load_scenario(self, scenario: dict) -> None:
        model = AccountsScenario(**scenario)
        self.accounts = model.accounts
        self.charges = model.charges

    def save_scenario(self) -> dict:
        return {
            "accounts": {k: v.model_dump() for k, v in self.accounts.items()},
            "charges": self.charges,
        }


mcp = FastMCP(name="MemberAccounts")
system = MemberAccountsAPI()


@mcp.tool()
def load_scenario(scenario: dict) -> str:
    """Load a scenario."""
    system.load_scenario(scenario)
    return "Successfully loaded scenario"


@mcp.tool()
def save_scenario() -> dict:
    """Save the scenario."""
    return system.save_scenario()


@mcp.tool()
def find_account(member: str) -> dict:
    """The account of a member."""
    for number, account in system.accounts.items():
        if account.member == member:
            return {"account": number, **account.model_dump()}
    raise KeyError(f"{member} has no account")


@mcp.tool()
def charge_a_fee_for_something_lent(account: int, cents: int, what: str) -> int:
    """Charge an account, and answer what it owes."""
    system.accounts[account].cents += cents
    system.charges.append({"account": account, "cents": cents, "what": what})
    return system.accounts[account].cents
