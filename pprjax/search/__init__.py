"""Search: the best paths for each number of edits in a deterministic world of any size, and a proof where one ends."""
