"""Packs as one file: built alike everywhere, signed, and unpacked without trust. See docs/packs.md.

An archive is a zstd frame of a plain tar: first a manifest that names the pack and its digest, then
the pack's files in the order of their names. There is one way to write a pack, and what was written
in any other is refused.
"""

from environments.archives.packing import build_archive
from environments.archives.signatures import PublicKey, SecretKey, Trust
from environments.archives.unpacking import Archive, read_archive

__all__ = ["Archive", "PublicKey", "SecretKey", "Trust", "build_archive", "read_archive"]
