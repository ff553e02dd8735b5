"""Environments, episodes and verification. Serves no HTTP and no MCP."""
