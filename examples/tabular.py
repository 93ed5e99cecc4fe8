"""A table with features on scales of their own: what a certified radius means for each feature, in its own units."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import smoothcert

SIGMA = 0.5  # of one standard deviation of a feature


def main() -> None:
    table = load_breast_cancer(as_frame=True)
    train, test = table.data[:400], table.data[400:450]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train.to_numpy(), table.target[:400])
    run = smoothcert.certify(
        model, (test, table.target[400:450]), sigma=SIGMA, n=2000, scale="standard", scale_data=train, progress=False
    )
    figures, scale = run.figures([0.5]), run.asked.data.scale
    share = figures.certified_accuracy[0.5]
    print(f"{share.hits} of {share.of} are proven right within 0.5 standard deviations; mean radius {figures.acr:.2f}")
    widest = np.argsort(scale.width)[::-1][:3]
    for feature in widest:
        print(f"{scale.names[feature]} alone: ± {figures.acr * scale.width[feature]:.3g} of its own units")


if __name__ == "__main__":
    main()
