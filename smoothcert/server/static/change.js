// How much change a radius is: pictures in whole steps of 1/255 that lie inside it, as near to its edge as they come.
// Pictures are Uint8Array [channels × height × width]; a length is in the norm that is certified, on the scale [0,1].

const STEPS = 255;

/** The length of a change of so many steps in each value; of a patch how often the unit patch covers it, both ways. */
export function length(norm, from, to, shape, unit = [1, 1]) {
  if (norm === "patch") return Math.max(...sides(from, to, shape).map((side, i) => Math.ceil(side / unit[i])));
  let sum = 0, most = 0, changed = 0, added = 0;
  for (let i = 0; i < from.length; i++) {
    const step = Math.abs(to[i] - from[i]);
    sum += step * step;
    added += step;
    most = Math.max(most, step);
    changed += step > 0;
  }
  return { l2: Math.sqrt(sum) / STEPS, l1: added / STEPS, linf: most / STEPS, l0: changed }[norm];
}

/** Rows and columns of the smallest rectangle that holds every change. */
function sides(from, to, [, height, width]) {
  const rows = [], columns = [];
  from.forEach((value, i) => {
    if (to[i] === value) return;
    rows.push(Math.floor(i / width) % height);
    columns.push(i % width);
  });
  return [rows, columns].map((at) => (at.length ? at.reduce((a, b) => Math.max(a, b)) - at.reduce((a, b) => Math.min(a, b)) + 1 : 0));
}

/** Two pictures inside the radius: a change that is everywhere, and one that is in one place; or two stickers. */
export function changes(picture, shape, norm, radius, unit = [1, 1]) {
  const random = numbers(1);
  const kinds = {
    l2: [gaussian, patch], l1: [gaussian, patch], l0: [scattered, patch], linf: [signs, shift], patch: [board, confetti],
  }[norm] ?? [];
  return kinds.map((kind) => {
    const { title, direction, top } = kind(picture, shape, norm, radius, random, unit);
    const pixels = norm === "patch" ? moved(picture, direction, 1) : farthest(picture, direction, top, norm, radius);
    return { title, pixels, length: length(norm, picture, pixels, shape, unit), words: words(picture, pixels, shape[0]) };
  });
}

/** A patch as large as the radius allows, at a place between 0 and 1, each pixel showing what it is told to. */
function stuck(picture, [channels, height, width], radius, [tall, wide], place, shown) {
  const rows = Math.min(height, radius * tall), columns = Math.min(width, radius * wide);
  const top = Math.round(place * (height - rows)), left = Math.round(place * (width - columns));
  const direction = new Float64Array(picture.length);
  for (let c = 0; c < channels; c++) {
    for (let y = top; y < top + rows; y++) {
      for (let x = left; x < left + columns; x++) {
        const at = (c * height + y) * width + x;
        direction[at] = shown(x, y, c) - picture[at];
      }
    }
  }
  return { direction, top: 1 };
}

function board(picture, shape, norm, radius, random, unit) {
  return { title: "a sticker in the middle", ...stuck(picture, shape, radius, unit, 0.5, (x, y) => ((x + y) % 2) * STEPS) };
}

function confetti(picture, shape, norm, radius, random, unit) {
  const shown = () => Math.floor(random() * (STEPS + 1));
  return { title: "another one elsewhere", ...stuck(picture, shape, radius, unit, 0.2, shown) };
}

/** Values moved along a direction, by whole steps, as far as a picture can hold them. */
function moved(picture, direction, scale) {
  return Uint8Array.from(picture, (value, i) => Math.min(STEPS, Math.max(0, Math.round(value + scale * direction[i]))));
}

/** The farthest of these inside the radius. No value ever moves back as the scale grows, so halving finds it. */
function farthest(picture, direction, top, norm, radius) {
  const inside = (scale) => {
    const found = length(norm, picture, moved(picture, direction, scale));
    return norm === "l0" ? found <= radius : found < radius;
  };
  if (inside(top)) return moved(picture, direction, top);
  let low = 0, high = top;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (inside(middle)) low = middle; else high = middle;
  }
  return moved(picture, direction, low);
}

function gaussian(picture, shape, norm, radius, random) {
  const direction = Float64Array.from(picture, () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()));
  return { title: "spread over the picture at random", direction, top: 1e5 };
}

function signs(picture, shape, norm, radius, random) {
  return { title: "every value, up or down at random", direction: Float64Array.from(picture, () => (random() < 0.5 ? -1 : 1)), top: STEPS };
}

function shift(picture) {
  const sign = picture.reduce((sum, value) => sum + value, 0) > (STEPS / 2) * picture.length ? -1 : 1;
  return { title: sign > 0 ? "everything brighter" : "everything darker", direction: new Float64Array(picture.length).fill(sign), top: STEPS };
}

/** To the end of the scale that is farther away. */
const away = (value) => (value > STEPS / 2 ? -value : STEPS - value);

function scattered(picture, shape, norm, radius, random) {
  const places = [...picture.keys()], direction = new Float64Array(picture.length);
  const number = Math.min(Math.floor(radius), picture.length);
  for (let i = 0; i < number; i++) {
    const other = i + Math.floor(random() * (places.length - i));
    [places[i], places[other]] = [places[other], places[i]];
    direction[places[i]] = away(picture[places[i]]);
  }
  return { title: "values anywhere, each turned over", direction, top: 1 };
}

/** The smallest square in the middle that can take up the whole radius. */
function patch(picture, [channels, height, width], norm, radius) {
  const counted = norm === "l0" ? Math.floor(radius) : Infinity;
  let direction = new Float64Array(picture.length);
  for (let side = 1; side <= Math.max(height, width); side++) {
    direction = new Float64Array(picture.length);
    const top = Math.max(0, (height - side) >> 1), left = Math.max(0, (width - side) >> 1);
    let used = 0;
    for (let y = top; y < Math.min(height, top + side); y++) {
      for (let x = left; x < Math.min(width, left + side); x++) {
        for (let c = 0; c < channels && used < counted; c++, used++) {
          const place = (c * height + y) * width + x;
          direction[place] = away(picture[place]);
        }
      }
    }
    const reached = length(norm, picture, moved(picture, direction, 1));
    if (reached >= (norm === "l0" ? counted : radius)) break;
  }
  return { title: "all of it in one place", direction, top: 1 };
}

/** `1,024 of 3,072 values change, by 2.1 steps of 255 on average, 9 at most` */
function words(from, to, channels) {
  let changed = 0, added = 0, most = 0;
  from.forEach((value, i) => {
    const step = Math.abs(to[i] - value);
    changed += step > 0;
    added += step;
    most = Math.max(most, step);
  });
  const number = (value) => value.toLocaleString("en-US");
  if (!changed) return "Nothing changes: the radius is less than one step of 255 in one value.";
  const among = `${number(changed)} of ${number(from.length)} values${channels === 3 ? " (three to a pixel)" : ""}`;
  const steps = (value) => (value === 1 ? "1 step" : `${value} steps`);
  const mean = Number((added / changed).toFixed(added < 10 * changed ? 1 : 0));
  return `${among} ${changed === 1 ? "changes" : "change"}, by ${mean === most ? "" : `${mean} steps on average and `}${steps(most)} of 255${mean === most ? "" : " at most"}.`;
}

/** Numbers in [0,1) that are the same at every visit (mulberry32). */
function numbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
