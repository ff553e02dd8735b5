"""MCP for agents and people: every URL serves one surface, in both eras of the protocol."""
