"""Which candidates are there, and how many: RAPPOR's decoder, a regression on Bloom filters.

The estimate of one value at a time takes what other values' filters share with its own for
chance. The shares are known, so fitting all candidates together removes that error from those
that are frequent enough to be found.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize, sparse, special

from mechanisms.channel import Counts, Floats
from mechanisms.papers.rappor import Rappor

_ROUNDS = 10  # of the selection; the noise settles in two to four


class Decoded(NamedTuple):
    """The candidates that the regression selected, the most frequent first.

    Attributes:
        candidates: (k,) int64 values.
        frequency: (k,) unbiased given the selection: not clipped, not normalised.
        standard_error: (k,) in frequency units.
        p_value: (k,) of the one-sided test that nobody holds the candidate.
        significant: (k,) whether that is rejected, all candidates taken together.
        dispersion: what the fit leaves unexplained, in multiples of the known noise, at least 1.
            Much more than 1 says that frequent values are missing among the candidates.
    """

    candidates: NDArray[np.int64]
    frequency: Floats
    standard_error: Floats
    p_value: Floats
    significant: NDArray[np.bool_]
    dispersion: float


def decode(
    mechanism: Rappor, counts: Counts, candidates: ArrayLike, significance: float = 0.05
) -> Decoded:
    """Select candidates by LASSO, fit those by weighted least squares, test each.

    Args:
        mechanism: what made the reports.
        counts: (codes,) from `count`.
        candidates: (m,) distinct integers in 0 .. domain_size - 1. Values that are held but not
            listed add noise, which the standard errors contain. It is close to normal if each
            of them is rare; one frequent value that is missing may let candidates that happen to
            share more of its bits than expected pass for significant.
        significance: the probability that any candidate which nobody holds is called significant,
            in (0, 1); shared by all m candidates (Bonferroni).

    Returns:
        What was selected. Candidates that it does not list are too rare to be told from absent.

    Raises:
        ValueError: significance is out of range; a candidate is, or comes twice; nobody reported;
            or selected candidates have the same filters.

    Source: Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014, section 4, steps 1 to 5. Here the
        design is centred, which makes unlisted values noise; coefficients are at least 0 in the
        selection; the penalty follows the noise (Sun, Zhang, "Scaled sparse linear regression",
        Biometrika 2012); and standard errors know that each cohort is a sample of the users.

    >>> from mechanisms.randomness import SeededRandom
    >>> mechanism = Rappor(epsilon=4.0, domain_size=100)
    >>> counts = mechanism.simulate([600_000, 400_000] + [0] * 98, SeededRandom(1))
    >>> table = decode(mechanism, counts, range(100))
    >>> table.candidates[table.significant].tolist(), table.frequency[:2].round(2).tolist()
    ([0, 1], [0.6, 0.4])
    """
    if not 0 < significance < 1:
        raise ValueError(f"significance must lie between 0 and 1, not {significance}")
    values = mechanism._checked(candidates).astype(np.int64)
    if not 0 < values.size == np.unique(values).size:
        raise ValueError("candidates must be distinct, and one at the least")
    if not mechanism.users(counts, 0) > 0:
        raise ValueError("there is no report to decode")
    problem = _Regression(mechanism, counts, values)
    chosen = problem.search()
    fit = problem.fit(chosen)
    frequency, error = fit.shares, problem.errors(fit)
    p_value = special.ndtr(-frequency / error)
    order = np.argsort(-frequency, kind="stable")
    return Decoded(
        values[chosen][order],
        frequency[order],
        error[order],
        p_value[order],
        # All that were candidates are counted, not only the selected ones, which look best.
        p_value[order] <= significance / values.size,
        fit.dispersion,
    )


class _Fit(NamedTuple):
    """Least squares on k candidates: (k, cohorts, bits) filters, shares, and what is left."""

    filters: Floats
    factor: tuple[Floats, bool]
    shares: Floats
    dispersion: float


class _Regression:
    """Bit frequencies of all cohorts, less the chance level, against the candidates' filters."""

    def __init__(self, mechanism: Rappor, counts: Counts, values: NDArray[np.int64]) -> None:
        self.n, b, h = mechanism.users(counts, 0), mechanism.bits, mechanism.hashes
        reports = counts[mechanism.headers :]
        self.used = np.flatnonzero(reports)
        self.reports = reports[self.used].astype(np.float64)
        self.bits, self.hashes, self.density = b, h, mechanism.density
        table = counts[: mechanism.headers].reshape(-1, b)[self.used]
        share = table / self.reports[:, None]
        # Less the density, what an average filter adds is 0, so unlisted values are noise and no
        # bias.
        self.target = ((share - mechanism.flip) / mechanism.slope - self.density).ravel()
        # Variance of one cell times its cohort's reports: the coins, and who is in the cohort.
        self.coins = mechanism.flip * (1 - mechanism.flip) / mechanism.slope**2
        self.sampling = self.density * (1 - self.density)
        self.weight = self.reports / (self.coins + self.sampling)
        # All filters have h of b bits, so every centred column has this weighted square.
        self.square = h * (1 - self.density) * float(self.weight.sum())
        places = mechanism.filters.positions(self.used[:, None], values)
        places += (np.arange(self.used.size) * b)[:, None, None]
        entries = places.transpose(1, 0, 2).reshape(values.size, -1)
        pointers = np.arange(values.size + 1) * entries.shape[1]
        shape = (values.size, self.target.size)
        self.filters = sparse.csr_array((np.ones(entries.size), entries.ravel(), pointers), shape)
        self.columns = self.filters.T.tocsr()

    def search(self) -> NDArray[np.intp]:
        """The candidates that a LASSO selects whose penalty is set by the noise it leaves."""
        scores = np.zeros(self.filters.shape[0])
        chosen = np.flatnonzero(scores)
        dispersion = self.fit(chosen).dispersion
        for _ in range(_ROUNDS):
            scores = self._lasso(np.sqrt(dispersion), scores)
            chosen, before = np.flatnonzero(scores > 0), dispersion
            dispersion = self.fit(chosen).dispersion
            # Further candidates that explain next to nothing are noise that was fitted.
            if not dispersion < 0.98 * before:
                break
        return chosen

    def _lasso(self, noise: float, start: Floats) -> Floats:
        """Scores of at least 0, a score of 1 being one standard error of the known noise.

        One absent candidate of all is selected on average: its noise then exceeds the penalty.
        """
        size, scale = self.filters.shape[0], np.sqrt(self.square)
        penalty = noise * float(special.ndtri(1 - 1 / max(size, 2)))
        weight, columns = np.repeat(self.weight, self.bits), self.columns

        def objective(scores: Floats) -> tuple[float, Floats]:
            """The penalised square and its gradient."""
            shares = scores / scale
            misfit = columns @ shares - self.density * shares.sum() - self.target
            pull = weight * misfit
            gradient = (self.filters @ pull - self.density * pull.sum()) / scale + penalty
            return 0.5 * float(pull @ misfit) + penalty * float(scores.sum()), gradient

        optimum = optimize.minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * size,
            options={"maxiter": 1000, "maxfun": 2000, "ftol": 1e-10, "gtol": 1e-3},
        )  # fmt: skip
        return np.asarray(optimum.x, np.float64)

    def fit(self, chosen: NDArray[np.intp]) -> _Fit:
        """Weighted least squares on some candidates."""
        picked = self.filters[chosen]
        shape = (chosen.size, self.used.size, self.bits)
        filters = np.asarray(picked.toarray(), np.float64).reshape(shape)
        weight = np.repeat(self.weight, self.bits)
        normal = np.zeros((chosen.size, chosen.size))
        for cohort, share in enumerate(self.weight):
            normal += share * self._products(filters[:, cohort])
        factor = _factor(normal, self.square)
        aim = weight * self.target
        shares = linalg.cho_solve(factor, picked @ aim - self.density * aim.sum())
        misfit = self.target - (picked.T @ shares - self.density * shares.sum())
        freedom = max(self.target.size - chosen.size, 1)
        # What is not selected adds to the noise; less than the known noise there cannot be.
        dispersion = max(1.0, float(np.sum(weight * misfit**2)) / freedom)
        return _Fit(filters, factor, np.asarray(shares, np.float64), dispersion)

    def _products(self, filters: Floats) -> Floats:
        """Inner products of the candidates' centred filters in one cohort."""
        return filters @ filters.T - self.hashes * self.density

    def errors(self, fit: _Fit) -> Floats:
        """The standard errors of the shares."""
        spread = linalg.cho_solve(fit.factor, self._spread(fit))
        covariance = linalg.cho_solve(fit.factor, spread.T)
        shares = np.clip(fit.shares, 0, 1)
        # All cohorts together are the users themselves, of whom no sample was drawn.
        variance = np.diag(covariance) - shares * (1 - shares) / self.n
        # The coins' own noise is there in any case, whatever a share out of range did above.
        least = self.coins / (self.coins + self.sampling) / self.square
        return np.sqrt(np.maximum(variance, least))

    def _spread(self, fit: _Fit) -> Floats:
        """The covariance of the weighted columns' products with the target.

        A cohort is a sample of the users: where it has too many holders of a candidate, all bits
        of that filter come too often. That all cohorts together are all users, and no sample, is
        taken off in the end.
        """
        shares = np.clip(fit.shares, 0, 1)
        rest = max(0.0, 1 - float(shares.sum()))
        noise = fit.dispersion * (self.coins + rest * self.sampling)
        total = np.zeros((shares.size, shares.size))
        for cohort, (reports, weight) in enumerate(zip(self.reports, self.weight, strict=True)):
            products = self._products(fit.filters[:, cohort])
            mean, root = products @ shares, products * np.sqrt(shares)
            sampled = root @ root.T - np.outer(mean, mean)
            total += weight**2 / reports * (noise * products + sampled)
        return total


def _factor(normal: Floats, square: float) -> tuple[Floats, bool]:
    """The Cholesky factor of the candidates' products, where no column follows from others."""
    try:
        factor, lower = linalg.cho_factor(normal)
    except linalg.LinAlgError:  # a pivot below 0, by rounding
        factor, lower = np.zeros_like(normal), False
    # The squares of the pivots are what each column adds to those before it.
    if not np.all(np.diag(factor) ** 2 > 1e-9 * square):
        raise ValueError(
            "some candidates have the same filters, or follow from others': more cohorts or more "
            "bits tell them apart"
        )
    return np.asarray(factor, np.float64), bool(lower)
