"""The stages from a sentence to a proven environment, a file each."""
