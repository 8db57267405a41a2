"""Whole params files, put together of sections, and the rules that span several of these."""
