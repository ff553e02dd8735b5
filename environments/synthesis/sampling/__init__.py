"""Tasks by walks through the graph of a pack's tools; of any pack, see ``sampler``."""
