// What an answer says and does not say, in the words of the reports (smoothcert/report/meaning.py).

export const SIGNS = { l0: "ℓ₀", l1: "ℓ₁", l2: "ℓ₂", linf: "ℓ∞", patch: "patch" };

/** Rows and columns that a radius of 1 is against, where it is the size of a patch. */
export function unitPatch(model) {
  const told = /radius 1 is (\d+) × (\d+) pixels/.exec(model.noise ?? "");
  return told ? [Number(told[1]), Number(told[2])] : [1, 1];
}

/** `5 × 5 pixels` */
export function patchSize(model, radius) {
  return `${unitPatch(model).map((side) => side * radius).join(" × ")} pixels`;
}

const NEAR = {
  l2: (r) => `nearer than ${r} in the ℓ₂ norm (Euclidean distance)`,
  l1: (r) => `whose changes, added up over all values (the ℓ₁ norm), come to less than ${r}`,
  l0: (r) => `that differs in ${r} values or fewer (the ℓ₀ norm), whichever they are and however much they change`,
  linf: (r) => `in which no value changes by ${r} or more (the ℓ∞ norm)`,
  patch: (r, model) => `that differs inside one patch of ${patchSize(model, r)} only, wherever it is and whatever it shows: a sticker`,
};

/** `nearer than 0.5 in the ℓ₂ norm (Euclidean distance), values being scaled to [0, 1]` */
export function near(model, radius, guarantee) {
  const open = NEAR[model.norm](radius, model);
  const text = guarantee === "deterministic" ? open.replace("less than " + radius, radius + " or less") : open;
  const grid = /steps of 1\/(\d+)/.exec(model.noise ?? "");
  const scale = ["l0", "patch"].includes(model.norm) ? "" : ", values being scaled to [0, 1]";
  return text + scale + (grid ? `, among inputs that are multiples of 1/${grid[1]}, as 8-bit images are` : "");
}

/** Two sentences: what it says, and what it does not. */
export function meaning(model, answer, mode, radius) {
  const alpha = answer.parameters.alpha ?? model.alpha;
  const risk = `wrong with probability at most α = ${alpha}, over the noise that was drawn`;
  const alone = "the network alone, without noise";
  if (answer.abstained) {
    return ["Nothing about this input: the draws did not decide it, and the service would rather say nothing than something false.",
      "That the input is hard, or under attack, or that a longer time or more draws would not decide it."];
  }
  if (mode === "predict" && !(answer.radius > 0)) {
    return [`This is the label that the smoothed classifier gives most often (${model.noise}); that is ${risk}.`,
      `Anything about other inputs, however near: no radius was asked for. Nor that the label is right, nor anything about ${alone}.`];
  }
  const where = near(model, radius, answer.guarantee);
  const kinds = model.norm === "patch" ? "two patches, a larger one, faint changes all over, rotation, blur" : "another norm, rotation, blur";
  const other = `that the label is right, nor anything about other kinds of change (${kinds}), nor about ${alone}`;
  if (answer.guarantee === "memory") {
    return [`Every later query inside this region gets this label from this service's memory: every input ${where}. That holds by construction, without an α.`,
      `Anything about a classifier without this memory: another order of questions, or none, may be answered otherwise. Nor ${other}.`];
  }
  if (answer.guarantee === "none") {
    return ["Nothing about neighbours: each input has a noise level of its own, and no memory keeps them from contradicting each other.",
      "That the radius is a promise. It only says how far this noise level would have reached."];
  }
  const promise = `The smoothed classifier gives this label to every input ${where}.`;
  const sure = answer.guarantee === "deterministic" ? "Every case of the noise was counted: no α, no luck of the draw." : `This statement is ${risk}.`;
  const often = answer.guarantee === "deterministic" ? "" : " And α is per answer: among many answers a share of α may be wrong on average.";
  return [`${promise} ${sure}`, `${other[0].toUpperCase()}${other.slice(1)}.${often}`];
}
