// The answer on the page: label, radius, votes, draws, the certificate, and how much change the radius is.
import { changes } from "./change.js";
import { meaning, patchSize, SIGNS, unitPatch } from "./meaning.js";
import { show } from "./picture.js";
import { call, certificatePath, hasKey } from "./service.js";

const MOST_CLASSES = 10;
const $ = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en-US");
const down = (value) => (Number.isInteger(value) ? String(value) : (Math.floor(value * 1000) / 1000).toFixed(3)); // never above what was proven
let saved = null;

export function showAnswer(model, answer, asked, values) {
  const name = (label) => model.classNames[label] ?? String(label);
  const certified = !answer.abstained && answer.radius > 0;
  $("verdict").className = answer.abstained ? "abstained" : "answered";
  $("reason").hidden = !answer.abstained;
  $("reason").textContent = answer.abstained ? `The service abstains: ${answer.reason || "the draws did not decide"}.` : "";
  cards(model, answer, asked, name);
  votes(answer, name);
  draws(model, answer, asked);
  evidence(answer);
  $("change-part").hidden = !certified || answer.guarantee === "none";
  if (!$("change-part").hidden) change(model, answer, values);
  const [says, not] = meaning(model, answer, asked.mode, down(answer.radius));
  $("says").textContent = says;
  $("says-not").textContent = not;
  $("answer").hidden = false;
  $("answer-title").focus({ preventScroll: true });
  $("answer").scrollIntoView({ block: "start" });
}

function cards(model, answer, asked, name) {
  const alpha = answer.parameters.alpha ?? model.alpha;
  const whose = answer.guarantee === "memory" ? "of this service with its memory" : "of the smoothed classifier";
  const found = [["Label", answer.abstained ? "none" : name(answer.label), "", answer.abstained ? "it abstains" : whose]];
  if (!answer.abstained && (asked.mode === "certify" || answer.radius > 0)) {
    const nothing = model.norm === "patch" ? `no sticker of ${patchSize(model, answer.radius)}` : "nothing nearer";
    const about = asked.radius === undefined ? `${nothing} changes the label` : `asked for: ${asked.radius}`;
    found.push([answer.guarantee === "none" ? "Radius, not certified" : "Certified radius", down(answer.radius), SIGNS[model.norm] ?? model.norm, about]);
  }
  const sources = {
    smoothing: ["Risk", `α = ${alpha}`, "", "that it is wrong, at most"],
    memory: ["Source", "memory", "", answer.draws ? "a region, promised from now on" : "a region promised before"],
    deterministic: ["Risk", "none", "", "every case was counted"],
    none: ["Promise", "none", "", "σ of its own, and no memory"],
  };
  if (!answer.abstained) found.push(sources[asked.mode === "predict" && answer.guarantee === "none" ? "smoothing" : answer.guarantee]);
  found.push(["Draws", number(answer.draws), "", answer.draws === 0 ? "none was needed" : "noisy copies classified"]);
  $("cards").replaceChildren(...found.map(([title, value, unit, about]) => {
    const card = part("div", "card");
    const shown = part("dd", "value", value);
    if (unit) shown.append(part("span", "unit", unit));
    card.append(part("dt", "", title), shown, part("dd", "about", about));
    return card;
  }));
}

function votes(answer, name) {
  const total = answer.votes.reduce((sum, hits) => sum + hits, 0);
  $("votes-part").hidden = total === 0;
  const ranked = answer.votes.map((hits, label) => ({ hits, label })).sort((a, b) => b.hits - a.hits || a.label - b.label);
  const most = Math.min(MOST_CLASSES, ranked.filter((one) => one.hits).length);
  const listed = ranked.slice(0, most), rest = ranked.slice(most);
  const others = rest.reduce((sum, one) => sum + one.hits, 0);
  $("votes-note").textContent = `of ${number(total)} noisy copies, those that tested the label`;
  const rows = listed.map(({ hits, label }) => bar(name(label), hits, total, label === answer.label));
  if (rest.length) rows.push(bar(rest.length === 1 ? name(rest[0].label) : `${rest.length} other classes`, others, total, false));
  $("votes").replaceChildren(...rows);
}

function bar(name, hits, total, leads) {
  const row = part("li", leads ? "right" : ""), fill = part("span", "fill");
  fill.style.width = `${(100 * hits) / total}%`;
  const share = hits && hits < total / 1000 ? "< 0.1" : (Math.floor((1000 * hits) / total) / 10).toFixed(1);
  row.append(fill, part("span", "", name), part("span", "", `${share} %`));
  row.title = `${number(hits)} votes`;
  return row;
}

function draws(model, answer, asked) {
  const share = Math.min(1, answer.draws / model.n), times = model.n / Math.max(1, answer.draws);
  $("spent").style.width = `${100 * share}%`;
  const whole = `${number(model.n)} draws that the largest radius takes here`;
  if (answer.abstained) $("saving").textContent = `${number(answer.draws)}, and no decision.`;
  else if (answer.draws === 0) $("saving").textContent = `None, instead of the ${whole}.`;
  else if (times >= 1.05) $("saving").textContent = `${number(answer.draws)} instead of the ${whole}: ${times >= 10 ? Math.floor(times) : times.toFixed(1)} times fewer.`;
  else $("saving").textContent = `${number(answer.draws)}: nothing was saved.${asked.radius === undefined && asked.mode === "certify" ? " Ask whether a radius that you name is reached; that is often known after far fewer." : ""}`;
}

function evidence(answer) {
  $("evidence-part").hidden = !answer.certificate;
  saved = answer.certificate || null;
  if (saved) $("certificate").href = certificatePath(saved);
}

function change(model, answer, values) {
  const { norm, shape } = model, sign = SIGNS[norm] ?? norm;
  const found = values instanceof Uint8Array ? changes(values, shape, norm, answer.radius, unitPatch(model)) : [];
  const radius = down(answer.radius);
  $("change-note").textContent = found.length ? `Two of the pictures inside the radius, in whole steps of 8 bits. ${
    answer.guarantee === "memory" ? "The memory answers both with this label." : "The certificate covers both: this label, and no other."}` : inWords(norm, values.length, radius);
  const original = { title: "the input", pixels: values, words: "As it was sent." };
  $("changes").replaceChildren(...(found.length ? [original, ...found] : []).map((one) => {
    const figure = part("figure", ""), caption = part("figcaption", ""), canvas = document.createElement("canvas");
    show(canvas, one.pixels, shape, one.title);
    const told = one.length === undefined ? "" : `${sign} length ${down(one.length)} of ${radius}. `;
    caption.append(part("strong", "", one.title), part("span", "", told + one.words));
    figure.append(canvas, caption);
    return figure;
  }));
}

function inWords(norm, size, radius) {
  const each = (share) => Number(share.toPrecision(2));
  return {
    l2: `For example every one of ${size} values by less than ${each(radius / Math.sqrt(size))}, or a single one by less than ${radius}.`,
    l1: `For example every one of ${size} values by less than ${each(radius / size)}, or a single one by less than ${radius}.`,
    linf: `Every one of ${size} values by less than ${radius}, all at once.`,
    l0: `Any ${radius} of ${size} values, by however much.`,
    patch: "Any one patch of this size, wherever it is and whatever it shows.",
  }[norm] ?? "";
}

function part(kind, name, text = "") {
  const made = document.createElement(kind);
  made.className = name;
  made.textContent = text;
  return made;
}

function complain(error) {
  $("error").textContent = error.message;
  $("error").hidden = false;
  $("error").scrollIntoView({ block: "center" });
}

/** A page that needs a key cannot be a plain link: it is fetched, and put into the new tab without its scripts. */
async function openWithKey(event) {
  if (!hasKey()) return;
  event.preventDefault();
  const tab = window.open("", "_blank");
  try {
    const text = await (await call(certificatePath(saved), { headers: { Accept: "text/html" } })).text();
    fill(tab, text);
  } catch (error) {
    tab.close();
    complain(error);
  }
}

/** The tab has this page's policy, which allows no style in the markup: styles are taken out, and set by script. */
function fill(tab, text) {
  const unstyled = text.replaceAll("<style>", "<template>").replaceAll("</style>", "</template>").replaceAll(' style="', ' data-style="');
  const page = new DOMParser().parseFromString(unstyled, "text/html");
  const sheet = new tab.CSSStyleSheet();
  sheet.replaceSync([...page.querySelectorAll("template")].map((one) => one.content.textContent).join("\n"));
  page.querySelectorAll("template, script, meta[http-equiv]").forEach((one) => one.remove());
  tab.document.replaceChild(tab.document.adoptNode(page.documentElement), tab.document.documentElement);
  tab.document.adoptedStyleSheets = [sheet];
  tab.document.querySelectorAll("[data-style]").forEach((one) => { one.style.cssText = one.dataset.style; });
}

async function save() {
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await (await call(certificatePath(saved))).blob());
    link.download = `certificate-${saved.slice(0, 12)}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    complain(error);
  }
}

$("certificate").addEventListener("click", openWithKey);
$("save").addEventListener("click", save);
