"""Questions put to the methods: a folder each, with its graph, settings, stages, report, tests and results."""
