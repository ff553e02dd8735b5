"""Making environments that pass the gate: by a language model in stages, or from blueprints."""
