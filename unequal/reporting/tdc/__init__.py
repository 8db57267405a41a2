"""Report of the study tdc: plans for experts beside the paper's method."""
