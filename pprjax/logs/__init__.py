"""Logs of what agents did: read, fitted, and a recourse for each path that missed the goal."""
