"""The commands that need no world but a log's own."""
