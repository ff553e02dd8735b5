"""Simulated users: who answers an agent that asks the person it is helping."""
