"""The proof: the optimum of Eq. 5 in a finite deterministic world, and a path that attains it."""
