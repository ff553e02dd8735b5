"""The outermost layer: what of a client's bytes is let in, how fast, and what is said of errors."""
