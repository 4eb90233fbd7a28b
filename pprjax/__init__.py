"""Personalized Path Recourse in JAX.

An agent took a path that ended badly. pprjax edits it into one that reaches the goal, stays close to the original, and
is what this very agent would do (Hong and Wang, arXiv 2312.08724), and proves how far that is from the best edit.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
