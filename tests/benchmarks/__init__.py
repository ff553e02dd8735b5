"""Benchmarks: each figure beside its baseline, measured in the same run.

python -m tests.benchmarks [NAME...] [--json PATH]
"""
