"""Writes numbers.txt: samples and what SciPy (and diptest) compute from them.

Run in an environment with scipy 1.17.1, numpy and diptest 0.12.0:

    python make.py > numbers.txt

One case a line: name, then `key=v,v,...` fields. Floats are written with 17 digits.
"""
import numpy as np
import scipy
from scipy import stats
import diptest

rng = np.random.default_rng(20240229)


def line(name, **fields):
    parts = [name]
    for key, value in fields.items():
        values = np.atleast_1d(np.asarray(value, dtype=float))
        parts.append(key + "=" + ",".join(repr(float(v)) for v in values))
    print(" ".join(parts))


print(f"# scipy {scipy.__version__}, numpy {np.__version__}, diptest {diptest.__version__}; made by make.py")
for z in [-8.0, -3.5, -1.0, 0.0, 0.3, 1.4, 1.5, 2.5, 6.0]:
    line("normal_cdf", z=z, p=stats.norm.cdf(z))
for p in [1e-10, 1e-4, 0.02, 0.03, 0.5, 0.9, 0.9999]:
    line("normal_quantile", p=p, z=stats.norm.ppf(p))
for t, df in [(0.2, 1), (2.1, 3), (2.5, 9), (5.0, 18.7), (-3.3, 120)]:
    line("student", t=t, df=df, p=2 * stats.t.sf(abs(t), df))
for p, df in [(0.975, 2), (0.975, 9), (0.995, 30.5), (0.2, 4)]:
    line("student_quantile", p=p, df=df, t=stats.t.ppf(p, df))

samples = [
    (rng.normal(10, 1, 8), rng.normal(10.5, 1, 6)),
    (rng.normal(0, 1, 20), rng.normal(0.9, 1, 20)),
    (rng.lognormal(0, 1, 5), rng.lognormal(1.5, 1, 12)),
    (np.round(rng.normal(5, 2, 9)), np.round(rng.normal(7, 2, 7))),
    (np.round(rng.normal(0, 1, 6)), np.round(rng.normal(0, 1, 6))),
]
for x, y in samples:
    tied = len(set(np.concatenate([x, y]))) < len(x) + len(y)
    if tied:
        # mannwhitneyu's exact method does not know ties; enumerate all arrangements instead.
        exact = stats.permutation_test(
            (x, y), lambda a, b: stats.mannwhitneyu(a, b).statistic, n_resamples=np.inf, vectorized=False
        ).pvalue
    else:
        exact = stats.mannwhitneyu(x, y, method="exact").pvalue
    line("mann_whitney", x=x, y=y, u=stats.mannwhitneyu(x, y).statistic, p=exact)
    ks = stats.ks_2samp(x, y, method="exact")
    line("ks", x=x, y=y, d=ks.statistic, p=ks.pvalue)
    w = stats.ttest_ind(x, y, equal_var=False)
    line("welch", x=x, y=y, t=w.statistic, df=w.df, p=w.pvalue)
    walsh = [(a + b) / 2 for i, a in enumerate(x) for b in x[i:]]
    line("hodges_lehmann", x=x, y=y, one=np.median(walsh), two=np.median(np.subtract.outer(y, x)))
    line("spread", x=x, mad=stats.median_abs_deviation(x), q1=np.quantile(x, 0.25), q9=np.quantile(x, 0.9),
         gmean=stats.gmean(np.abs(x) + 1))
    lo, hi = np.subtract(np.quantile(x, [0.25, 0.75]), np.array([1.5, -1.5]) * stats.iqr(x))
    line("fences", x=x, low=lo, high=hi)
    tau = stats.kendalltau(np.arange(len(x)), x, method="asymptotic" if tied else "exact")
    line("kendall", x=x, tau=tau.statistic, p=tau.pvalue, exact=not tied)
    slope = stats.theilslopes(x)[0]
    line("theil_sen", x=x, slope=slope)
    line("dip", x=x, dip=diptest.dipstat(x))
big_x, big_y = np.round(rng.normal(0, 4, 120)), np.round(rng.normal(1, 4, 110))
big = stats.mannwhitneyu(big_x, big_y, method="asymptotic")
line("mann_whitney_asymptotic", x=big_x, y=big_y, u=big.statistic, p=big.pvalue)
for x, y in samples[:1] + samples[3:]:
    test = stats.permutation_test((x, y), lambda a, b: np.mean(b) - np.mean(a), n_resamples=np.inf, vectorized=False)
    # SciPy doubles the smaller tail; the share of |statistic| at least as large is what we report.
    null = test.null_distribution
    line("permutation", x=x, y=y, p=np.mean(np.abs(null) >= abs(test.statistic) * (1 - 1e-12)))
d = samples[1][1][:10] - samples[1][0][:10]
test = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=False)
line("sign_flips", x=d, p=test.pvalue)
# Paired ranks: blocks of one and one. Aligned ranks reduce to a signed-rank test.
line("wilcoxon", x=d, p=stats.wilcoxon(d, method="exact").pvalue)
ps = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528, 0.759, 1.0]
line("benjamini_hochberg", p=ps, adjusted=stats.false_discovery_control(ps))
for n, shift in [(10, 0), (30, 0), (40, 4), (41, 2.5), (25, 9)]:
    x = rng.normal(0, 1, n) + shift * (np.arange(n) % 2)
    line("dip", x=x, dip=diptest.dipstat(x))
x = np.round(rng.normal(0, 3, 60))
line("dip", x=x, dip=diptest.dipstat(x))
for x in [rng.normal(0, 1, 12), rng.lognormal(0, 0.7, 25)]:
    def hl(v, axis=-1):
        i, j = np.triu_indices(v.shape[-1])
        return np.median((v[..., i] + v[..., j]) / 2, axis=-1)
    b = stats.bootstrap((x,), hl, n_resamples=200_000, batch=2000, method="BCa", random_state=1).confidence_interval
    line("bca_hodges_lehmann", x=x, low=b.low, high=b.high)
    b = stats.bootstrap((x,), np.mean, n_resamples=400_000, batch=5000, method="BCa", random_state=2).confidence_interval
    line("bca_mean", x=x, low=b.low, high=b.high)
