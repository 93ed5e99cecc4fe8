"""The table over thresholds: figures by hand, in every layout, and a threshold for a demand."""

from __future__ import annotations

import numpy as np
import pytest

from smoothcert.contracts import ABSTAIN
from smoothcert.data import Subset
from smoothcert.decisions import Verdicts, composed
from smoothcert.errors import OptionError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.report import render
from smoothcert.report.aces import as_json, by_threshold, notes, table, theta_for
from smoothcert.runs.components import Components, NoisyNetwork, Origin

LABELS = np.array([0, 1, 2, 1])
CORE = np.array([0, 1, 0, 2])


def parts():
    """Four inputs: certified right with radius 1; wrong; right with 0.25; nothing certified."""
    certified = Verdicts(np.array([0, 2, 2, ABSTAIN]), np.array([1.0, 0.5, 0.25, 0.0]), np.array([0, 2, 2, ABSTAIN]))
    selection = Verdicts(
        np.array([[0, 0, 0, 0], [1, ABSTAIN, 1, 0], [1, 1, 1, 1]]),
        np.array([[2.0, 2.0, 2.0, 2.0], [0.5, 0.0, 0.25, 0.1], [2.0, 2.0, 2.0, 2.0]]),
        np.array([[0, 0, 0, 0], [1, 0, ABSTAIN, 0], [1, 1, 1, 1]]),
    )
    alone = certified._replace(radius=certified.radius * 1.1)
    origin = Origin(100_000, 10_000, 0.001, Subset("digits"), NoisyNetwork("a" * 64, Gaussian(0.25)), alone)
    thetas = np.array([0.0, 0.4, 1.0])
    return Components("aces", np.arange(4), LABELS, certified, selection, thetas, CORE, None, "l2", origin)


def test_figures_by_hand():
    core, middle, alone = by_threshold(parts().at([0.0, 0.4, 1.0]), [0.0, 0.25, 0.5])
    assert (core.natural.hits, core.acr, core.selected[0.0].hits) == (2, 0.0, 0)
    assert [share.hits for share in core.certified.values()] == [2, 0, 0]
    # The selector that abstains about input 1 has selected nothing (erratum E5), and both do not agree there.
    assert [share.hits for share in middle.selected.values()] == [2, 2, 1]
    assert [share.hits for share in middle.certified.values()] == [2, 2, 1]
    assert middle.acr == (0.5 + 0.25) / 4 and middle.abstained.hits == 1
    assert middle.natural.hits == 2  # inputs 0 and 1; about 2 nobody knows and both disagree
    assert [share.hits for share in alone.selected.values()] == [4, 4, 4]
    assert alone.acr == (1.0 + 0.25) / 4 and alone.natural.hits == 2


def test_both_agreeing_answer_for_an_uncertain_selector():
    """Without a radius, and for the certificate and the prediction each by their own verdicts."""
    selection = Verdicts(np.array([[ABSTAIN] * 4]), np.zeros((1, 4)), np.array([[ABSTAIN] * 4]))
    found = composed(selection, parts().certified, np.array([0, 1, 2, 2]))
    assert found.label.tolist() == [[0, ABSTAIN, 2, ABSTAIN]] == found.natural.tolist()
    assert not found.radius.any()


def test_layouts():
    found = by_threshold(parts().at([0.0, 0.4]), [0.0, 0.25])
    shown = table(found, notes(parts()), 0.4)
    assert [column.head for column in shown.columns] == ["NAC %", "ACR", "0", "0.25", "0", "0.25"]
    assert shown.names == ("0.00", "0.40\nthis run’s rows")
    cells = [column.cells[1] for column in shown.columns]
    assert cells == ["50.0", "0.187", "50.0", "50.0", "50.0", "50.0"]
    assert render.markdown(shown).splitlines()[3] == "| 0.40 this run’s rows | " + " | ".join(cells) + " |"
    text = render.plain_text(shown)
    assert text.count("0.40") == 3 and "certified selection rate (%) at radius" in text
    latex = render.latex(shown)
    assert latex.count("\\multicolumn{2}{c}") == 2 and " & ".join(cells) + " \\\\" in latex
    assert as_json(found)[1]["certified_selection_rate"] == {"0": 0.5, "0.25": 0.5}
    assert "10,000 draws" in text and "ACR 0.343 at alpha 0.001, 0.312 at half of it" in render.markdown(shown)


def test_radii_by_default_reach_the_largest():
    assert list(by_threshold(parts().at([0.4]))[0].certified) == [0.0, 0.25, 0.5]
    assert list(by_threshold(parts().at([1.0]))[0].certified)[-1] == 2.0


def test_a_threshold_for_a_demand():
    assert theta_for(parts(), "natural-accuracy=0.5")[0] == 1.0
    theta, line = theta_for(parts(), "acr=0.18")
    assert line.acr >= 0.18 and theta in (0.4, 1.0)
    with pytest.raises(OptionError, match=r"natural-accuracy=0.9 must be within reach .* the most is 0.500"):
        theta_for(parts(), "natural-accuracy=0.9")
    for wrong in ("accuracy=0.9", "acr", "acr=-1", "natural-accuracy=nan"):
        with pytest.raises(OptionError, match="--theta-for must be natural-accuracy=… or acr=…"):
            theta_for(parts(), wrong)
