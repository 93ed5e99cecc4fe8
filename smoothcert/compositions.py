"""Networks with roles as one smoothed classifier: ACES and routes, in Python as on the command line.

>>> aces = Aces("models/certified", core="models/accurate", noise=Gaussian(0.25), theta=0.3)
>>> aces.certify(x).radius
>>> aces.save("models/both")
>>> Aces.load("models/both").predict(x)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from smoothcert.catalog import describe
from smoothcert.classifiers import composite
from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import Noise, Sampling
from smoothcert.errors import ModelError, OptionError
from smoothcert.noise import as_noise
from smoothcert.procedures.aces import AcesPredict, AcesProcedure
from smoothcert.procedures.route import RoutePredict, RouteProcedure
from smoothcert.sampling.fixed import Fixed
from smoothcert.smoothed import Arithmetic, Procedure, Smoothed, as_classifier

Part = tuple[str, Any, Noise | None]  # role, model or what `smoothcert.load` takes, noise; a core has none


class SmoothedComposition(Smoothed):
    """Networks with roles, each under its noise. A network is an object, or what `smoothcert.load` takes.

    The parts of a certificate are the certificates of the selection and of what was selected.
    """

    kind: composite.Kind
    predict_draws = 10_000

    def __init__(self, parts: Sequence[Part], noise: Noise | float, engine: str, arithmetic: Arithmetic) -> None:
        self.parts = tuple(parts)
        roles, models, noises = zip(*parts, strict=True)
        loaded = tuple(as_classifier(model) for model in models)
        super().__init__(Bundle(roles, loaded, noises), noise, engine=engine, arithmetic=arithmetic)

    def save(self, folder: str | Path) -> None:
        """Write composite.json; the networks stay where they are, so they must be folders, files or names."""
        members = []
        for role, model, noise in self.parts:
            if not isinstance(model, str | Path):
                raise ModelError(
                    f"{role} of a composition must be a folder, file or name to be saved; got {type(model).__name__}"
                )
            members.append(composite.described(Path(folder), str(model), role, describe(noise) if noise else None))
        composite.write(Path(folder), composite.Composite(self.kind, tuple(members), options=self._options()))

    def _options(self) -> dict[str, Any]:
        """What belongs to the composition beside its networks."""
        return {}

    def _at(self, folder: Path) -> Self:
        """As loaded from a folder: its networks can be saved again."""
        places = [composite.located(folder, member) for member in composite.read(folder).members]
        self.parts = tuple((role, place, noise) for (role, _, noise), place in zip(self.parts, places, strict=True))
        return self


class Aces(SmoothedComposition):
    """The certified network where the selection is certain of it, else the core, which has no radius.

    Without a selection network the certified one's own entropy selects, where it is at most theta.
    """

    kind = "aces"

    def __init__(
        self,
        certify: Any,
        core: Any,
        noise: Noise | float,
        theta: float = 0.3,
        select: Any = None,
        *,
        engine: str = "auto",
        arithmetic: Arithmetic = None,
    ) -> None:
        self.theta, noise = AcesProcedure(theta).theta, as_noise(noise)
        selection: list[Part] = [] if select is None else [("select", select, noise)]
        super().__init__([("certify", certify, noise), ("core", core, None), *selection], noise, engine, arithmetic)

    @classmethod
    def load(cls, folder: str | Path, theta: float | None = None, **how: Any) -> Self:
        """A composition that was saved, or that `smoothcert aces certify` keeps as RUN/model; at another theta.

        Engine and arithmetic may be given as for a new one.
        """
        said, networks = composite.bundle(Path(folder), "aces")
        parts = dict(zip(networks.roles, networks.members, strict=True))
        noise = next(iter(networks.noises), None)
        if noise is None or not {"certify", "core"} <= parts.keys():
            raise ModelError(f"{folder} must hold a certified network with its noise, and a core; it does not")
        at = said.options.get("theta", 0.3) if theta is None else theta
        return cls(parts["certify"], parts["core"], noise, at, parts.get("select"), **how)._at(Path(folder))

    def _options(self) -> dict[str, Any]:
        return {"theta": self.theta}

    def _certifying(self, n0: int, sampling: Sampling) -> Procedure:
        if not isinstance(sampling, Fixed):
            raise OptionError("sampling of ACES must be fixed, without radius; got another one")
        return AcesProcedure(self.theta, n0, sampling.n, sampling.alpha)

    def _predicting(self, n: int, alpha: float) -> Procedure:
        return AcesPredict(self.theta, n, alpha)


class Route(SmoothedComposition):
    """A selector chooses one of several branches, each with its own noise; a branch without noise is a core."""

    kind = "route"

    def __init__(
        self,
        branches: Sequence[tuple[Any, Noise | float | None]],
        selector: Any,
        noise: Noise | float,
        *,
        engine: str = "auto",
        arithmetic: Arithmetic = None,
    ) -> None:
        if len(branches) < 2:
            raise ModelError(f"a route must have at least two branches; got {len(branches)}")
        parts: list[Part] = [
            (f"branch {number}", model, None if own is None else as_noise(own))
            for number, (model, own) in enumerate(branches)
        ]
        super().__init__([*parts, ("select", selector, as_noise(noise))], noise, engine, arithmetic)

    @classmethod
    def load(cls, folder: str | Path, **how: Any) -> Self:
        """A composition that was saved, or that a run of `smoothcert route certify` keeps as RUN/model.

        Engine and arithmetic may be given as for a new one.
        """
        _, networks = composite.bundle(Path(folder), "route")
        *branches, (selector, noise) = zip(networks.members, networks.noises, strict=True)
        if noise is None:
            raise ModelError(f"{folder} must hold branches and a selector with its noise; it does not")
        return cls(branches, selector, noise, **how)._at(Path(folder))

    def _certifying(self, n0: int, sampling: Sampling) -> Procedure:
        return RouteProcedure(n0, sampling)

    def _predicting(self, n: int, alpha: float) -> Procedure:
        return RoutePredict(n, alpha)
