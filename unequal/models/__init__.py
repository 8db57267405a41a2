"""Networks: built from settings, saved whole, counted in FLOPs, wrapped as denoisers."""
