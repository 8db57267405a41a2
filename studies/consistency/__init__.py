"""Do models of other seeds and widths make the same picture of the same noise?"""
