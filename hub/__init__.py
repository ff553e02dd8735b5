"""The network edge: episodes over MCP and REST, their ledger, and the command line."""
