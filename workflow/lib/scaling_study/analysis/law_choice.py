"""The scaling law of a launch: chosen from candidates by AICc, with its knee.

Every candidate is fitted to the logarithm of throughput (a percentage is the same error at every n)
by bounded least squares, and judged by Akaike's information criterion with the small-sample
correction (Burnham and Anderson, Model Selection and Multimodel Inference, 2002, ch. 2.4), which
counts the error's variance as a parameter. A law whose correction is not defined is not fitted, and
no law is chosen if fewer than two can be fitted. A fitted law says nothing outside the process
counts that were measured: its curve ends there.

Dependence
    All counts of a launch come from the same cohorts, so they share the cohorts' level. Every law
    has a free level, which absorbs the shared one, so the least squares are those of generalised
    least squares. K counts are then K - 1 independent contrasts, which depend on p - 1 of a law's p
    parameters. The criterion uses these two numbers, which makes it one of the restricted
    likelihood (Mueller, Scealy and Welsh, Statistical Science 28(2), 2013, ch. 3). The restriction
    is the same for all laws, so they can be compared.

Knee
    Errors of throughput are drawn with the scatter of replicates or the law's misfit, whichever is
    larger. The fit's linearisation turns them into errors of the parameters (Bates and Watts,
    Nonlinear Regression Analysis, 1988, ch. 2), and these into errors of the knee. The interval
    assumes that the law is the right one. A knee without an interval, or whose interval extends
    beyond the measured counts, is not reported.
"""

from collections.abc import Sequence

import numpy as np
from scipy import optimize

from scaling_study.analysis.laws import LAWS, Law
from scaling_study.records.analysis import ChosenLaw, FittedLaw
from scaling_study.stats.interval import Floats, Integers, Interval
from scaling_study.stats.thresholds import CONFIDENCE

FEWEST_COUNTS = 4  # three points fit any saturating curve
RESOLUTION = 1e-4  # relative: step times are not read and averaged more precisely
INDISTINGUISHABLE = 2.0  # AICc difference below which a law has support like the best's (ib. 2.6)
REDRAWN = 1000  # draws of a knee: the ends of its interval are then known to a twentieth of it
REFINED_STARTS = 2  # the best start, and one more in case it leads to a local optimum
NEAR_NOTHING = 1e-3  # part of a parameter that every draw keeps: no rate becomes zero


class Fit:
    """A law fitted to a launch's points.

    Args:
        law: The candidate.
        n: Distinct process counts, ascending; at least three more than the law has parameters.
        throughput: Steps/s at each.

    Attributes:
        bounds: Lowest and highest values of the parameters.
        parameters: The fitted values.
        aicc: The law's criterion.
        r2: Share of the variance of log throughput that it explains; NaN without variance.
        misfit: Standard deviation of the residuals.
        sensitivity: Shape (parameters, counts): change of each parameter per error of each log
            throughput.
    """

    def __init__(self, law: Law, n: Integers, throughput: Floats) -> None:
        logs = np.log(throughput)

        def residuals(parameters: Floats) -> Floats:
            return np.asarray(np.log(law.throughput(n, parameters)) - logs)

        starts = [np.array(start) for start in law.starts(n, throughput)]
        starts.sort(key=lambda start: float((residuals(start) ** 2).sum()))
        low, high = (np.array(bound) for bound in list(zip(*law.parameters, strict=True))[1:])
        ends = [
            optimize.least_squares(residuals, start, bounds=(low, high), x_scale=start)
            for start in starts[:REFINED_STARTS]
        ]
        end = min(ends, key=lambda each: float(each.cost))
        squares = 2 * float(end.cost)
        contrasts = len(n) - 1
        counted = len(law.parameters)  # without the level, with the variance
        aicc = (
            contrasts * np.log(max(squares / contrasts, RESOLUTION**2))
            + 2 * counted
            + 2 * counted * (counted + 1) / (contrasts - counted - 1)
        )
        total = float(((logs - logs.mean()) ** 2).sum())
        self.law, self.bounds, self.parameters, self.aicc = law, (low, high), end.x, float(aicc)
        self.r2 = 1 - squares / total if total else np.nan
        self.misfit = float(np.sqrt(squares / (len(n) - counted)))
        self.sensitivity = np.linalg.pinv(np.asarray(end.jac))


def fewest_counts(law: Law) -> int:
    """Return how many process counts a law's AICc needs to be defined."""
    return len(law.parameters) + 3


def choose(
    n: Integers, throughput: Floats, scatter: Floats, further: Sequence[Law] = ()
) -> ChosenLaw:
    """Fit all candidates to a launch's points and choose one.

    Args:
        n: Distinct process counts, ascending.
        throughput: Steps/s at each.
        scatter: Standard deviation of the logarithm of each, without the part that all share; NaN
            where it is not known.
        further: Candidates of this launch besides `LAWS`.
    """
    laws = (*LAWS, *further)
    fitted = [law for law in laws if len(n) >= fewest_counts(law)]
    if len(n) < FEWEST_COUNTS or len(fitted) < 2:  # noqa: PLR2004 - a choice needs two
        needed = max(FEWEST_COUNTS, sorted(map(fewest_counts, laws))[1])
        reason = f"process counts measured: {len(n)}; a choice needs {needed}"
        return ChosenLaw(status="refused", reason=reason)
    fits = sorted((Fit(law, n, throughput) for law in fitted), key=lambda each: each.aicc)
    best = fits[0]
    support = np.exp([(best.aicc - each.aicc) / 2 for each in fits])
    weights = (support / support.sum()).tolist()
    candidates = tuple(_candidate(*each) for each in zip(fits, weights, strict=True))
    return ChosenLaw(
        status="fitted",
        best=best.law.name,
        text=_text(fits, weights),
        candidates=candidates,
        knee=_knee(best, n, scatter),
    )


def _knee(best: Fit, n: Integers, scatter: Floats) -> Interval | None:
    """Return the knee of the chosen law with its interval, in processes; None if not reported."""
    value = best.law.knee(best.parameters)
    if value is None or np.isnan(scatter).any():
        return None
    normals = np.random.default_rng(0).standard_normal((REDRAWN, len(n)))
    errors = np.maximum(scatter, best.misfit) * normals
    low = np.maximum(best.bounds[0], NEAR_NOTHING * best.parameters)
    parameters = (best.parameters + errors @ best.sensitivity.T).clip(low, best.bounds[1])
    # If the law does not bend in a draw, its knee is beyond all counts.
    knees = [np.inf if (knee := best.law.knee(each)) is None else knee for each in parameters]
    ends = np.quantile(knees, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], method="nearest")
    if not n[0] <= ends[0] <= value <= ends[1] <= n[-1]:
        return None
    return Interval(value, float(ends[0]), float(ends[1]))


def _candidate(fitted: Fit, weight: float) -> FittedLaw:
    law = fitted.law
    names = [name for name, *_ in law.parameters]
    return FittedLaw(
        law=law.name,
        domain=law.domain,
        formula=law.formula,
        parameters=dict(zip(names, fitted.parameters.tolist(), strict=True)),
        aicc=fitted.aicc,
        weight=weight,
        r2=fitted.r2,
    )


def _words(law: Law) -> str:
    name = law.name.replace("_", " ")
    return name if law.domain is None else f"{name} ({law.domain})"


def _text(fits: Sequence[Fit], weights: Sequence[float]) -> str:
    """Return which law fits, its Akaike weight, and which others fit as well, in words."""
    best = fits[0]
    like = [_words(each.law) for each in fits[1:] if each.aicc - best.aicc < INDISTINGUISHABLE]
    text = f"{_words(best.law)}, Akaike weight {weights[0]:.2f}"
    return f"{text}; {' and '.join(like)} fit as well" if like else text
