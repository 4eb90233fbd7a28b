"""Algorithm 1: paths are sampled, the best are kept, and a Q-network is fitted to them."""
