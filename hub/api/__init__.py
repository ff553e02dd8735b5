"""The trainer's REST API: one table of routes drives dispatch, validation and the description."""
