"""Measurements of speed, run by hand: each compares a part of the library with a bare loop on the same machine."""
