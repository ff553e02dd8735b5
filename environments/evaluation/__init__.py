"""Measuring a policy on tasks: who plays, the runs it makes, and the figures they give."""
