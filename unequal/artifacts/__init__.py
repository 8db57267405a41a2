"""Files that stages hand on, each with its reader and its writer."""
