"""What holds a worker down, and everything here that only Linux has.

A worker confines itself once, before any untrusted code is loaded, and for good. Every layer that
the kernel offers is put on; one that is missing is reported and never silently skipped. All of it
needs no privilege and no library beside ctypes. Elsewhere than on Linux the package still imports.
"""
