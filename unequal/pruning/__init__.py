"""Bringing a network under a limit of FLOPs by removing whole channels."""
