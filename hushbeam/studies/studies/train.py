"""`hushbeam evaluate train`: how good models get that are trained with privacy."""

from __future__ import annotations

import textwrap

from hushbeam.studies.engine.command import ERRORS, StudyCommand
from hushbeam.studies.populations.tables import TABLES
from hushbeam.studies.studies import dp_sgd, dssgd, regression

_TABLES = textwrap.fill(
    ", ".join(sorted(TABLES)), 100, initial_indent=" " * 11, subsequent_indent=" " * 11
)

COMMAND = StudyCommand(
    description="""\
How good models get that are trained with privacy, over repeated simulated runs: linear regression
on locally private gradients or from noisy sums, DP-SGD by a curator, and selective SGD by many
participants. Local gradients and selective SGD are here alone: the one loses to sums, and often
to a constant, and the other protects nobody at budgets at which it learns.
""",
    about=f"""\
--study regression: squared errors of five-fold cross-validation, --repetitions times over
  systems: default (sampled coordinates, chosen for gradients), optimal, duchi, pm, hm, dct,
           dct_published (which is not private), and beside them no_noise (the same steps on exact
           gradients), least_squares and constant (the mean of the targets)
           counters (as `hushbeam train`: sums of products among dummies, delta 1e-6, users added or
           removed) and central_sums (the same sums by a curator, with Gaussian noise)
           paper: all that a paper compares; all: all of them
  data:    census:N, made; or FILE.parquet, FILE.parquet:N of a table whose columns are declared:
{_TABLES}
  All systems have the same folds, groups, coordinates and random numbers, so that only the
  mechanisms differ, and the same steps, unless --own-schedules plans each for its own noise.

--study dp-sgd: accuracy on the last fifth of images against epsilon, at --deltas
  systems: softmax, perceptron, convolution (eight filters of 5 x 5 pixels, averages and softmax),
           edges (softmax of hand-made features); NAME-exact without noise
  data:    digits:N, made; or FILE.parquet of mnist10k

--study dssgd: accuracy against theta_u (--shares), for each number of --participants
  systems: largest, random, alone, centralised; with Laplace noise of --noise epsilon for each
           value that is uploaded: noisy (at random places), noisy-largest (at places that the
           sparse vector technique takes, as in the paper); --model perceptron or convolution
  data:    as for dp-sgd

examples:
  hushbeam evaluate train --study regression --epsilons 0.5 1 2 4 --data DATA/adult.parquet \\
      DATA/ipums_us1980.parquet --output regression
  hushbeam evaluate train --study regression --epsilons 1 --data census:1e4 --ns 1e4 1e5 1e6 \\
      --repetitions 2 --output regression-n
  hushbeam evaluate train --study dp-sgd --epsilons 1 2 4 8 --deltas 1e-5 --data digits:4000 \\
      --repetitions 3 --output dp-sgd
  hushbeam evaluate train --study dssgd --shares 0.01 0.1 1 --participants 30 90 \\
      --data digits:4000 --repetitions 2 --output dssgd
""",
    figures=ERRORS,
    more="and, of regression, differences.parquet: by how much each system's errors differ from "
    "the default's on the same folds",
    studies={"regression": regression.STUDY, "dp-sgd": dp_sgd.STUDY, "dssgd": dssgd.STUDY},
)
