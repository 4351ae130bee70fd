"""A diagonal Gaussian mixture and the Fisher score of a set of points under it."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from slideseek.types import Float32, Float64
from slideseek_components.encoders.blas_threads import one_blas_thread


@dataclass(frozen=True)
class Mixture:
    """K Gaussians with diagonal covariance over standardised, optionally PCA-projected features.

    shift, scale: float64 (width,), y = (x - shift) / scale. axes: float64 (d, width), the PCA axes, or (0, width)
    for none, when d = width. weights: (K,). means, variances: (K, d).
    """

    shift: Float64
    scale: Float64
    axes: Float64
    weights: Float64
    means: Float64
    variances: Float64

    @classmethod
    def fit(cls, patches: Float32, components: int, pca: int, standardise: bool, iterations: int, seed: int) -> Mixture:
        """Fit by expectation maximisation from a k-means start; patches: float32 (n, width), n >= components."""
        width = patches.shape[1]
        shift, scale, axes = np.zeros(width), np.ones(width), np.empty((0, width))
        if standardise:
            x = patches.astype(np.float64)
            shift, scale = x.mean(axis=0), x.std(axis=0)
            scale[scale == 0] = 1.0
            del x
        with one_blas_thread(), warnings.catch_warnings():
            # Stopping at `iterations` is intended, and fewer distinct patches than components is allowed.
            warnings.simplefilter("ignore", ConvergenceWarning)
            y = _standardised(patches, shift, scale)
            if pca:
                projection = PCA(pca, svd_solver="full", copy=False).fit(y)
                axes = np.asarray(projection.components_, dtype=np.float64)
                shift = shift + scale * projection.mean_
                del projection, y  # as large as all patches
                y = _standardised(patches, shift, scale) @ axes.T
            # One Gaussian has all patches whatever the start: k-means would only copy them.
            start = "random" if components == 1 else "kmeans"
            model = GaussianMixture(
                components, covariance_type="diag", max_iter=iterations, init_params=start, random_state=seed
            ).fit(y)
        return cls(shift, scale, axes, model.weights_, model.means_, model.covariances_)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (K, d)."""
        return self.means.shape[0], self.means.shape[1]

    def project(self, features: Float32) -> Float64:
        """Return the points y, float64 (n, d), in the space of the Gaussians."""
        y = _standardised(features, self.shift, self.scale)
        if len(self.axes):
            y = y @ self.axes.T
        return y

    def posteriors(self, y: Float64) -> Float64:
        """Return float64 (n, K), the probability of each Gaussian given each point."""
        precision = 1.0 / self.variances
        squares = (
            (y**2) @ precision.T - 2.0 * (y @ (self.means * precision).T) + (self.means**2 * precision).sum(axis=1)
        )
        scores: Float64 = np.log(self.weights) - 0.5 * (squares + np.log(self.variances).sum(axis=1))
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def moments(self, y: Float64) -> tuple[Float64, Float64, Float64]:
        """Return sums over points of q (K,), q y (K, d) and q y^2 (K, d): they add up over chunks of points."""
        q = self.posteriors(y)
        return q.sum(axis=0), q.T @ y, q.T @ y**2

    def score(self, s0: Float64, s1: Float64, s2: Float64, count: int) -> dict[str, Float64]:
        """Return the normalised gradient blocks from the summed moments of `count` points.

        weights (K,): (mean q - pi) / sqrt(pi). means (K, d): mean q (y - mu) / sigma / sqrt(pi).
        variances (K, d): mean q ((y - mu)^2 / sigma^2 - 1) / sqrt(2 pi).
        """
        pi, sigma, q = self.weights[:, None], np.sqrt(self.variances), s0[:, None]
        squares = s2 - 2.0 * self.means * s1 + self.means**2 * q
        return {
            "weights": (s0 / count - self.weights) / np.sqrt(self.weights),
            "means": (s1 - q * self.means) / sigma / np.sqrt(pi) / count,
            "variances": (squares / self.variances - q) / np.sqrt(2.0 * pi) / count,
        }

    def project_scores(self, y: Float64, directions: dict[str, Float64], count: int) -> Float64:
        """Return float64 (n,): the inner product of `directions` (blocks as in `score`) with each point's own share
        of the score of a set of `count` points; the shares of a whole set add up to the set's score."""
        q = self.posteriors(y)
        total = np.zeros(len(y))
        for k in range(len(self.weights)):
            unit = (y - self.means[k]) / np.sqrt(self.variances[k])
            root = math.sqrt(self.weights[k])
            if "weights" in directions:
                total += directions["weights"][k] * (q[:, k] - self.weights[k]) / root
            if "means" in directions:
                total += q[:, k] * (unit @ directions["means"][k]) / root
            if "variances" in directions:
                total += q[:, k] * ((unit**2 - 1.0) @ directions["variances"][k]) / (math.sqrt(2.0) * root)
        return total / count


def _standardised(features: Float32, shift: Float64, scale: Float64) -> Float64:
    """Return (features - shift) / scale, float64 (n, width), in one array."""
    y: Float64 = features.astype(np.float64)
    y -= shift
    y /= scale
    return y
