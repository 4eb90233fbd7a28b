"""What recourse is compared with: published methods, batched and jitted."""

from pprjax.baselines.changes import ActionChanges, action_change_values, action_changes
from pprjax.baselines.counterfactual import counterfactual_probabilities
from pprjax.baselines.native_guide_windows import NativeGuide, native_guide

__all__ = [
    "ActionChanges",
    "NativeGuide",
    "action_change_values",
    "action_changes",
    "counterfactual_probabilities",
    "native_guide",
]
