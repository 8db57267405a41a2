"""A stage as a program: settings, files, resumable work, tracking."""
