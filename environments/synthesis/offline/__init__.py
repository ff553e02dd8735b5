"""Environments without a language model: composed from blueprints, filled, given tasks, checked."""
