"""Where should one expert hand over to another?"""
