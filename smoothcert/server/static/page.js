// The page for people: an input and a question in, the answer with its evidence out.
import { showAnswer } from "./answer.js";
import { SIGNS } from "./meaning.js";
import { read, show } from "./picture.js";
import * as service from "./service.js";

const MOST_EXAMPLES = 24; // every one is a request
const $ = (id) => document.getElementById(id);
const chosen = (name) => document.querySelector(`[name=${name}]:checked`).value;
let model, picture = null, underWay = null;

function complain(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    $("key-part").hidden = false;
    $("key").focus();
    if (!service.hasKey()) return;
  }
  $("error").textContent = error.message;
  $("error").hidden = false;
}

const quietly = (work) => async (...given) => {
  $("error").hidden = true;
  try { await work(...given); } catch (error) { complain(error); }
};

const start = quietly(async () => {
  model = await service.model();
  $("key-part").hidden = true;
  const facts = [model.name, model.noise, `${SIGNS[model.norm] ?? model.norm} norm`, `α = ${model.alpha}`, model.memory && "with a memory of regions"];
  $("conditions").replaceChildren(...facts.filter(Boolean).map((fact) => made("li", fact)));
  $("commitment").textContent = model.commitment ? `All noise is drawn from a secret that was committed to before: ${model.commitment}` : "";
  const [channels, height, width] = model.shape;
  const pictured = model.shape.length === 3 && [1, 3].includes(channels);
  $("picture-part").hidden = !pictured;
  $("values-part").hidden = pictured;
  $("fitted").textContent = `Any format; the middle of it, scaled to ${width} × ${height} pixels${channels === 1 ? ", in grey" : ""}.`;
  $("values-label").textContent = `${model.shape.reduce((a, b) => a * b, 1)} values`;
  $("n").max = model.most_n;
  $("deadline").max = model.longest_deadline_ms / 1000;
  $("deadline").value = Math.min(60, $("deadline").max);
  if (model.radius !== undefined) {
    $("largest").hidden = true; // the operator's radius is certified unless another one is asked for
    document.querySelector("[value=known]").checked = true;
    $("radius").value = model.radius;
  }
  settle();
  $("question").hidden = false;
  await fillGallery(pictured);
});

/** Examples are pictures: a model of other inputs has none to show. */
async function fillGallery(pictured) {
  const names = pictured ? (await service.examples()).slice(0, MOST_EXAMPLES) : [];
  $("gallery-part").hidden = names.length === 0;
  const made = await Promise.allSettled(names.map(async (name, number) => {
    const pixels = await read(await service.example(number), model.shape);
    return example(name, pixels);
  }));
  $("gallery").replaceChildren(...made.filter((one) => one.value).map((one) => one.value));
  const failed = made.find((one) => one.reason);
  if (failed) throw failed.reason;
}

function example(name, pixels) {
  const item = document.createElement("li"), button = item.appendChild(document.createElement("button"));
  Object.assign(button, { type: "button", className: "example" });
  const canvas = button.appendChild(document.createElement("canvas"));
  show(canvas, pixels, model.shape, name);
  canvas.setAttribute("aria-hidden", "true"); // its name stands below it
  button.append(made("span", name));
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    takePicture(pixels, name);
    press(button);
  });
  return item;
}

function press(button) {
  document.querySelectorAll(".example").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
}

function takePicture(pixels, name) {
  picture = pixels;
  show($("chosen"), pixels, model.shape, `the input: ${name}`);
  $("chosen").classList.add("filled");
  $("what").textContent = name;
}

const takeFile = quietly(async (file) => {
  if (!file) return;
  takePicture(await read(file, model.shape), file.name);
  press(null);
});

/** What can be asked follows from what is chosen. */
function settle() {
  const certify = chosen("mode") === "certify";
  $("radius-part").disabled = !certify;
  $("radius").disabled = chosen("which") !== "known";
  const whole = certify && chosen("which") === "largest";
  $("n-label").textContent = whole ? "Draws" : "Draws, at most";
  $("n").placeholder = whole ? model.n : "as needed";
  if (!underWay) $("send").textContent = certify ? "Certify" : "Predict";
}

function question() {
  const asked = { mode: chosen("mode"), deadline_ms: Math.round(1000 * Number($("deadline").value)) };
  if (asked.mode === "certify" && chosen("which") === "known") asked.radius = Number($("radius").value);
  if ($("n").value) asked.n = Number($("n").value);
  return asked;
}

function input() {
  if (!$("picture-part").hidden) {
    if (picture === null) throw new Error("choose a picture first: drop one, choose a file, or take one of the examples");
    return picture;
  }
  const size = model.shape.reduce((a, b) => a * b, 1);
  const words = $("values").value.split(/[\s,;]+/).filter(Boolean), values = words.map(Number);
  const bad = words.find((_, i) => !Number.isFinite(values[i]));
  if (bad !== undefined) throw new Error(`values must be numbers; got ${bad}`);
  if (values.length !== size) throw new Error(`there must be ${size} values; got ${values.length}`);
  return values;
}

const ask = quietly(async () => {
  const values = input(), asked = question();
  const done = wait(asked.deadline_ms / 1000);
  let answer;
  try {
    answer = await service.infer(model, values, asked, underWay.signal);
  } finally {
    done();
  }
  showAnswer(model, answer, asked, values);
});

/** Shows that time passes; what it returns ends that. */
function wait(deadline) {
  underWay = new AbortController();
  const since = performance.now();
  const tick = () => {
    const seconds = (performance.now() - since) / 1000;
    Object.assign($("progress"), { max: deadline, value: Math.min(seconds, deadline) });
    $("elapsed").textContent = `${seconds.toFixed(1)} s; at ${deadline} s whatever is undecided abstains`;
  };
  tick();
  const timer = setInterval(tick, 100);
  showWaiting(true);
  return () => {
    clearInterval(timer);
    underWay = null;
    showWaiting(false);
  };
}

function showWaiting(waiting) {
  $("waiting").hidden = $("stop").hidden = !waiting;
  $("send").disabled = waiting;
  $("answer").classList.toggle("stale", waiting);
  $("status").textContent = waiting ? "The service is drawing." : "";
}

function made(kind, text) {
  const part = document.createElement(kind);
  part.textContent = text;
  return part;
}

$("question").addEventListener("change", settle);
$("question").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!underWay) ask();
});
$("stop").addEventListener("click", () => underWay?.abort());
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  service.useKey($("key").value.trim());
  $("key").value = "";
  start();
});
$("file").addEventListener("change", (event) => takeFile(event.target.files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") takeFile(event.dataTransfer.files[0]);
  });
}
start();
