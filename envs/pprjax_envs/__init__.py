"""The worlds of pprjax: each a gymnax Environment, an agent or two, and an experiment."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
