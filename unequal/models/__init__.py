"""Networks: built from settings, saved whole, counted in FLOPs, asked through denoisers."""
