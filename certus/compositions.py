"""What a library user holds of several networks: ACES, and routing between branches.

>>> aces = Aces("models/certified", core="models/accurate", noise=Gaussian(0.25), theta=0.3)
>>> aces.certify(x).radius
>>> aces.save("models/both"); Aces.load("models/both").predict(x)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from certus.classifiers import bundle, load, wrap
from certus.classifiers.bundle import Bundle, Description
from certus.contracts import Certificate, Noise
from certus.errors import ModelError
from certus.procedures.aces import Aces as AcesCertify
from certus.procedures.aces_predict import AcesPredict
from certus.procedures.route import Route as RouteCertify
from certus.procedures.route_predict import RoutePredict
from certus.recipe import describe
from certus.sampling.fixed import Fixed
from certus.smoothed import Procedure, Smoothed

Part = tuple[str, Any, Noise | None]  # role, model (or what `certus.load` takes), noise; a core has none


class Composition:
    """Networks with roles, asked through the procedures of a kind of composition."""

    def __init__(self, kind: bundle.Part, parts: Sequence[Part], noise: Noise, engine: str) -> None:
        self.kind = kind
        self.parts = tuple(parts)
        roles, models, noises = zip(*parts, strict=True)
        loaded = tuple(load(model) if isinstance(model, str | Path) else wrap(model) for model in models)
        self._smoothed = Smoothed(Bundle(roles, loaded, noises), noise, engine=engine)

    def save(self, folder: str | Path) -> None:
        """Write composition.json; the networks stay where they are and must be folders, files or names."""
        bundle.write(Path(folder), self._described(Path(folder)))

    def _described(self, folder: Path) -> Description:
        for role, model, _ in self.parts:
            if not isinstance(model, str | Path):
                raise ModelError(
                    f"{role} of a composition must be a folder, file or name to be saved; got {type(model).__name__}"
                )
        parts = [(role, str(model), None if noise is None else describe(noise)) for role, model, noise in self.parts]
        return bundle.described(folder, self.kind, parts)

    def _each(self, procedure: Procedure, inputs: Sequence[Any], seed: int, batch: int | None) -> list[Certificate]:
        return self._smoothed.run(procedure, inputs, seed, batch)


class Aces(Composition):
    """The certified network where the selection is certain of it, else the core, which is not certified.

    Without a selection network the entropy of the certified one selects: at most theta, to the base of the classes.
    """

    def __init__(
        self, certify: Any, core: Any, noise: Noise, theta: float = 0.3, select: Any = None, *, engine: str = "auto"
    ) -> None:
        self.theta = AcesCertify(theta).theta
        parts: list[Part] = [("certify", certify, noise), ("core", core, None)]
        if select is not None:
            parts.append(("select", select, noise))
        super().__init__({"name": "aces", "theta": theta}, parts, noise, engine)

    def certify(self, x: Any, **options: Any) -> Certificate:
        """The label of x and its radius; options as in `certify_all`."""
        return self.certify_all([x], **options)[0]

    def certify_all(
        self, inputs: Sequence[Any], *, n0: int = 100, n: int = 100_000, alpha: float = 0.001, seed: int = 0,
        batch: int | None = None,
    ) -> list[Certificate]:  # fmt: skip
        """One certificate for each input: certified, or the core's answer with radius 0, or an abstention."""
        return self._each(AcesCertify(self.theta, n0, n, alpha), inputs, seed, batch)

    def predict(self, x: Any, *, n: int = 10_000, alpha: float = 0.001, seed: int = 0, batch: int | None = None) -> int:
        """The label of x, or −1 where n draws cannot tell; wrong with probability at most alpha."""
        return self._each(AcesPredict(self.theta, n, alpha), [x], seed, batch)[0].label

    @classmethod
    def load(cls, folder: str | Path, *, engine: str = "auto") -> Self:
        """A composition that was saved, or that a run of `certus aces certify` keeps as RUN/model."""
        kind, parts, noises = _read(Path(folder), "aces")
        return cls(parts["certify"], parts["core"], noises[0], kind["theta"], parts.get("select"), engine=engine)


class Route(Composition):
    """A selector chooses one of several branches, each with its own noise; a branch with None is a core."""

    def __init__(
        self, branches: Sequence[tuple[Any, Noise | None]], selector: Any, noise: Noise, *, engine: str = "auto"
    ) -> None:
        if len(branches) < 2:
            raise ModelError(f"a route must have at least two branches; got {len(branches)}")
        parts: list[Part] = [(f"branch {i}", model, around) for i, (model, around) in enumerate(branches)]
        super().__init__({"name": "route"}, [*parts, ("select", selector, noise)], noise, engine)

    def certify(self, x: Any, **options: Any) -> Certificate:
        """The label of x and its radius; options as in `certify_all`."""
        return self.certify_all([x], **options)[0]

    def certify_all(
        self, inputs: Sequence[Any], *, n0: int = 100, n: int = 100_000, alpha: float = 0.001, seed: int = 0,
        batch: int | None = None,
    ) -> list[Certificate]:  # fmt: skip
        """One certificate for each input; its parts are those of the selector and of the branch that was asked."""
        return self._each(RouteCertify(n0, Fixed(n, alpha)), inputs, seed, batch)

    def predict(self, x: Any, *, n: int = 10_000, alpha: float = 0.001, seed: int = 0, batch: int | None = None) -> int:
        """The label of x, or −1 where n draws cannot tell; wrong with probability at most alpha."""
        return self._each(RoutePredict(n, alpha), [x], seed, batch)[0].label

    @classmethod
    def load(cls, folder: str | Path, *, engine: str = "auto") -> Self:
        """A composition that was saved, or that a run of `certus route certify` keeps as RUN/model."""
        _, parts, noises = _read(Path(folder), "route")
        branches = [(model, noise) for (role, model), noise in zip(parts.items(), noises, strict=True)
                    if role != "select"]  # fmt: skip
        return cls(branches, parts["select"], noises[-1], engine=engine)


def _read(folder: Path, kind: str) -> tuple[bundle.Part, dict[str, str], list[Any]]:
    """The procedure of a saved composition, its models by role, and their noises."""
    if not bundle.is_bundle(folder):
        raise ModelError(f"{folder} must be the folder of a composition; it holds no {bundle.FILE}")
    description = bundle.read(folder)
    if description.procedure.get("name") != kind:
        raise ModelError(f"{folder} must be a composition of kind {kind}; got {description.procedure.get('name')}")
    bundle.load(folder)  # networks that have changed are refused here
    models = {member.role: bundle.located(folder, member) for member in description.members}
    return description.procedure, models, list(bundle.outline(folder).noises)
