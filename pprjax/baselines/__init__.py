"""What recourse is compared with: published methods, batched and jitted."""

from pprjax.baselines.changes import ActionChanges, action_change_values, action_changes
from pprjax.baselines.counterfactual import counterfactual_probabilities

__all__ = ["ActionChanges", "action_change_values", "action_changes", "counterfactual_probabilities"]
