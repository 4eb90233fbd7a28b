"""The experiments on the worlds, as commands of `pprjax`."""
