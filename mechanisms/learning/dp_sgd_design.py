"""Runs of private gradient descent that keep to a budget, and steps of a sensible length."""

import math
from dataclasses import replace

from mechanisms.learning.dp_sgd import DpSgd
from mechanisms.learning.objective import Objective
from mechanisms.learning.optimisers import Momentum
from mechanisms.privacy.composition import Neighbours
from mechanisms.privacy.sampled_gaussian import Accountant, least_sigma


def design(
    objective: Objective,
    rows: int,
    epsilon: float,
    delta: float,
    rate: float = 0.25,
    steps: int = 100,
    clip: float = 1.0,
    optimiser: Momentum | None = None,
    accountant: Accountant = "pld",
    neighbours: Neighbours = "add or remove",
) -> DpSgd:
    """A run with the least noise that keeps to (epsilon, delta).

    Args:
        objective: the model with its loss.
        rows: how many rows are expected.
        epsilon: for the whole run, in nats; infinite for no noise, to compare with.
        delta: in (0, 1).
        rate: q. Large lots are worth their time: the noise does not grow with the lot.
        steps: T.
        clip: C.
        optimiser: what is done with the noisy gradients; None for `usual_optimiser`.
        accountant: see `privacy.sampled_gaussian`.
        neighbours: see `privacy.sampled_gaussian`.

    Returns:
        The run; its `guarantee` at that delta is at most epsilon.

    Raises:
        ValueError: a parameter is out of range.

    >>> from mechanisms.learning.objectives import Softmax
    >>> training = design(Softmax(inputs=3, classes=2), 600, 1.0, 1e-5, accountant="rdp")
    >>> training.guarantee(1e-5, "rdp").epsilon <= 1.0
    True
    """
    sigma = 0.0
    if epsilon != math.inf:
        # A part in a million of delta is far more than the sampler's law is off by.
        sigma = least_sigma(epsilon, delta * (1 - 1e-6), rate, steps, accountant, neighbours)
    plan = DpSgd(objective, rows, rate, steps, sigma, clip)
    return replace(plan, optimiser=optimiser or usual_optimiser(plan))


def usual_optimiser(plan: DpSgd) -> Momentum:
    """A learning rate for a run, from what is public about it.

    The more noise a step brings in all coordinates together, the shorter it should be: rates of 2
    over the root of that, between 1 and 8 clipping norms, were close to the best that were tried
    on digits, for 3,930 .. 79,510 weights and epsilons of 1 .. 8. Squared errors, whose slopes do
    not level off, moreover need steps shorter than their curvature allows.

    Args:
        plan: with any optimiser.

    Returns:
        Momentum with that rate.
    """
    noise = plan.sigma / plan.lot * math.sqrt(plan.objective.parameters)
    rate = min(max(2 / math.sqrt(max(noise, 1e-9)), 1.0), 8.0) / plan.clip
    loss = plan.objective.loss
    if loss.classes is None:
        # Numbers of a row lie in [-1, 1]; momentum alone would allow 38 in place of 10.
        rate = min(rate, 10 / (loss.curvature * plan.objective.inputs))
    return Momentum(rate)
