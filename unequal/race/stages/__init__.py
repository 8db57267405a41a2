"""Stages of a race, thin programs each."""
