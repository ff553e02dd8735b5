"""How a pack's code is bound to an episode's state. Runs in a guest, never in the gateway."""
