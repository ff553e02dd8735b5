"""Our packs in the formats of others, so that their tools can use them."""
