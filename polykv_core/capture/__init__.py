"""Capturing attention heads of a Hugging Face model: fixtures made from a checkpoint and a text.

`request` says what is asked for, and needs nothing more than this package. The other modules need the extra `capture`.
"""
