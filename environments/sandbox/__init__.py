"""Where a pack's code runs: worker processes that the gateway does not trust."""
