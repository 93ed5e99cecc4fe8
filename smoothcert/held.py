"""A run as a Python user holds it: certificates to iterate, frames, figures, a page, verification, comparison.

>>> run = open_run("runs/mine")
>>> run.to_frame().query("radius > 0.5")
>>> run.report("report.html")
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from smoothcert.arguments import checked
from smoothcert.classifiers import composite, ready
from smoothcert.classifiers.adapted import adapted
from smoothcert.classifiers.module import Module
from smoothcert.classifiers.objects import stands_for, way_called
from smoothcert.contracts import Certificate, Classifier, Norm, Source
from smoothcert.errors import ModelError, OptionError, RunError
from smoothcert.files import writing
from smoothcert.report.compare import Compared, compare
from smoothcert.report.metrics import Figures, figures
from smoothcert.runs.exchange import arrow_table, columns
from smoothcert.runs.exchange import open_run as opened
from smoothcert.runs.recompute import replay, source_of
from smoothcert.runs.run import Row, Run
from smoothcert.runs.store import MODEL, refuse_strangers
from smoothcert.runs.verify import Findings, Places, changed_data, verify, verify_run

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


@dataclass(frozen=True, kw_only=True)
class HeldRun(Run):
    """A run: `len`, iteration over certificates, and what the commands do with a run.

    rows: one an input, with index, label, predicted, radius, draws, clean; claim: what the radii say.
    """

    model: Classifier | None = field(default=None, compare=False, repr=False)  # where it was an object of the caller's
    temporary: TemporaryDirectory[str] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, run: Run, **held: Any) -> Self:
        """The same run, held."""
        return cls(**{item.name: getattr(run, item.name) for item in fields(Run)}, **held)

    def __repr__(self) -> str:
        """One line: rows would fill the screen."""
        return f"HeldRun({self.name!r}, {len(self)} inputs, {self.claim.norm}, alpha={self.claim.alpha})"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Certificate]:
        """The certificates in the order of the rows, each with its evidence."""
        return map(self.certificate, self.rows)

    @checked
    def certificate(self, row: Row | int) -> Certificate:
        """The certificate of a row, or of the input with this index, replayed from its counts."""
        if isinstance(row, int):
            row = self._row(row)
        spec, own = self.asked, None if self.folder is None else self.folder / MODEL
        composed = own is not None and composite.kind_of(own) in ("aces", "route")
        networks: Any = composite.outline(own) if own is not None and composed else None
        if row.settled is not None and not row.answers:
            raise RunError(f"input {row.index} must have been drawn to have a certificate; a memory answered without")
        found, _ = replay(row.smoothed, spec.procedure, source_of(row, Source(networks, spec.noise)), spec.dim)
        if row.settled is None:
            return found
        promise = cast("Any", self.guarantee(row))
        return replace(found, label=row.predicted, radius=row.radius, guarantee=promise)

    def _row(self, index: int) -> Row:
        for row in self.rows:
            if row.index == index:
                return row
        raise RunError(f"index must be that of an input of {self.name}; got {index}")

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an input; columns as in CSV and Parquet, with what the radii claim."""
        try:
            import pandas
        except ImportError as error:
            raise OptionError("to_frame must find the package pandas; got none: pip install pandas") from error
        return pandas.DataFrame(columns(self))

    def to_arrow(self) -> Any:
        """A pyarrow Table with the same columns; what was asked is in its schema's metadata."""
        return arrow_table(self)

    @checked
    def figures(self, radii: Sequence[float] | None = None) -> Figures:
        """Certified accuracy at radii, average certified radius, abstentions, each with its interval."""
        return figures(self, radii)

    @checked
    def report(self, path: str | Path, *others: Run, radii: Sequence[float] | None = None) -> Path:
        """Write the page of this run, and of others beside it, to an HTML file."""
        from smoothcert.report.html import page, save

        if any(not isinstance(other, Run) for other in others):
            raise OptionError("others of report must be runs, as open_run gives them; got something else")
        target = Path(path)
        save(page([self, *others], radii), target)
        return target

    @checked
    def verify(
        self, redraw: int | None = None, *, model: Any = None, data: str | None = None, seed: int | None = None
    ) -> Findings:
        """Recompute every radius from its counts, and draw some inputs again: nothing is amiss without `problems`.

        redraw: inputs to draw again; None: the root of their number; −1: all. model, data: where they are now; a model
        that was an object has to be given as one.
        """
        held = self.model if model is None or isinstance(model, str | Path) else model
        if held is None or isinstance(model, str | Path):
            place = None if model is None else str(model)
            return verify_run(self, Places(place, data), redraw, seed)
        from smoothcert.smoothed import as_classifier

        classifier, inputs = as_classifier(held), Places(data=data).inputs(self)
        own = (self.folder or Path()) / MODEL / composite.NETWORK
        if isinstance(classifier, Module) and own.is_file() and stands_for(own, classifier):
            return verify_run(self, Places(data=data), redraw, seed)
        scale = self.asked.data.scale
        offset, width = ((), ()) if scale is None else (scale.offset, scale.width)
        try:
            called = way_called(classifier, offset, width, self.asked.model_digest)
        except ModelError as error:
            raise RunError(f"model must be the one that {self.name} certified; its hash differs") from error
        classifier = adapted(classifier, called)
        fast = ready(classifier, inputs.tensor(0)).classifier
        found = verify(self, inputs, fast, redraw, seed, loaded=classifier)
        return replace(found, problems=[*changed_data(self.asked, inputs), *found.problems])

    @checked
    def compare(self, other: Run | str | Path, radii: Sequence[float] | None = None) -> Compared:
        """This run held against another one on the inputs that both hold; `print` it to read it."""
        return compare(other if isinstance(other, Run) else opened(Path(other)), self, radii)

    @checked
    def save(self, folder: str | Path) -> HeldRun:
        """Keep a run that was made without `out`: a folder that every command takes."""
        if self.folder is None:
            raise RunError(f"{self.name} must be a run of smoothcert to be kept; got a log")
        _keep_at(self.folder, Path(folder))
        return replace(open_run(folder), model=self.model)

    def _repr_html_(self) -> str:
        """What a notebook shows: the figures, and what they claim."""
        from smoothcert.report import render
        from smoothcert.report.section import Section
        from smoothcert.report.tables import table

        return render.html(Section("run", self.name, tables=(table([self.figures()]),), notes=self.claim.words))


@checked
def open_run(path: str | Path, norm: Norm | None = None) -> HeldRun:
    """The run in a folder, or a Cohen-style log; `norm`: of a log that does not state it."""
    return HeldRun.of(opened(Path(path).expanduser(), norm))


def _keep_at(folder: Path, place: Path) -> None:
    """A copy of a run in a new folder, whole or not at all."""
    refuse_strangers(place)
    if (place / "recipe.toml").exists():
        raise RunError(f"{place} must be a new folder; it holds a run")
    part = place.with_name(f".{place.name}.part")
    with writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(folder, part, ignore=shutil.ignore_patterns("lock"))
        part.rename(place)
