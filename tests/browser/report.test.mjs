// The report in a browser: silent, offline, readable, operable. PAGES is a folder made by pages.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, describe, it } from "node:test";

import { launch, open, unfold } from "./open.mjs";

const FOLDER = process.env.PAGES;
const PAGES = ["many", "several", "norms", "log", "predictions"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const file = (name) => `${FOLDER}/${name}.html`;
let browser;

before(async () => { browser = await launch(); });
after(() => browser.close());

const texts = (page, selector) => page.locator(selector).allTextContents();
const column = async (page, number) => texts(page, `.listing tbody tr td:nth-child(${number})`);

for (const name of PAGES) {
  for (const colorScheme of ["light", "dark"]) {
    it(`${name}, ${colorScheme}: says nothing to the console, asks for nothing, has no serious barrier`, async () => {
      const { page, complaints, requests } = await open(browser, file(name), { colorScheme });
      await unfold(page);
      await page.evaluate(AXE);
      const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
      assert.deepEqual(serious.map((one) => `${one.id}: ${one.nodes[0].html} ${one.nodes[0].failureSummary}`), []);
      assert.deepEqual(complaints, []);
      assert.deepEqual(requests(), [`file://${file(name)}`]);
      await page.close();
    });
  }

  for (const [what, width, media] of [["a small phone", 360], ["a phone", 375], ["a laptop", 1280], ["a sheet of A4", 794, "print"]]) {
    it(`${name}: fits ${what}, ${width} px wide`, async () => {
      const { page } = await open(browser, file(name), { viewport: { width, height: 740 }, isMobile: width < 400 });
      await page.emulateMedia({ media: media ?? "screen" });
      await unfold(page);
      assert.ok(await page.evaluate((most) => document.documentElement.scrollWidth <= most, width));
      await page.close();
    });
  }

  it(`${name}: every control is reached by the tabulator key, and seen`, async () => {
    const { page } = await open(browser, file(name));
    await unfold(page);
    const wanted = await page.evaluate(() => {
      const all = [...document.querySelectorAll("a, button, input, select, summary, [tabindex]")];
      const shown = all.filter((one) => one.checkVisibility() && !one.disabled && !(one.type === "radio" && !one.checked));
      shown.forEach((one, i) => { one.dataset.stop = i; });
      return shown.length;
    });
    const reached = new Set();
    for (let i = 0; i < wanted + 5; i++) {
      await page.keyboard.press("Tab");
      const stop = await page.evaluate(() => {
        const now = document.activeElement;
        const outlined = now.closest("label") && getComputedStyle(now).opacity === "0" ? now.closest("label") : now;
        return now.dataset.stop && getComputedStyle(outlined).outlineStyle !== "none" ? now.dataset.stop : null;
      });
      if (stop !== null) reached.add(stop);
    }
    assert.equal(reached.size, wanted);
    await page.close();
  });
}

describe("curves", () => {
  it("show the value under the pointer, as the table has it", async () => {
    const { page } = await open(browser, file("several"));
    const heads = await texts(page, "table.runs >> nth=0 >> thead th");
    await page.locator(".curve svg").scrollIntoViewIfNeeded();
    const box = await page.locator(".curve [id$='-plot']").boundingBox();
    const end = await page.evaluate(() => JSON.parse(document.querySelector(".curve script").textContent).end);
    for (const radius of [0.5, 0.25]) {
      await page.mouse.move(box.x + (box.width * radius) / end, box.y + box.height / 2);
      assert.equal(await page.locator(".curve output").textContent(), String(radius));
      const place = heads.indexOf(String(radius));
      const cells = await texts(page, `table.runs >> nth=0 >> tbody tr > :nth-child(${place + 1})`);
      const read = await page.locator(".reading td").evaluateAll((all) => all.slice(0, 3).map((one) => one.firstChild.textContent));
      assert.deepEqual(read, cells.map((cell) => `${cell} %`));
    }
    const dots = await page.locator(".curve .dot").count();
    assert.equal(dots, 3);
    await page.close();
  });

  it("are read by the arrow keys", async () => {
    const { page } = await open(browser, file("many"));
    const slide = page.locator(".slide");
    const before = await slide.getAttribute("aria-valuetext");
    await slide.focus();
    await page.keyboard.press("ArrowRight");
    const after = await slide.getAttribute("aria-valuetext");
    assert.notEqual(after, before);
    assert.match(after, /^radius [\d.]+: many [\d.]+ %$/);
    await page.keyboard.press("Home");
    assert.equal(await page.locator(".curve output").textContent(), "0");
    await page.close();
  });

  it("have an upper envelope on demand, never below a run", async () => {
    const { page } = await open(browser, file("several"));
    const line = page.locator(".curve [id$='-envelope']");
    assert.equal(await line.isVisible(), false);
    await page.getByLabel("show the upper envelope").check();
    assert.equal(await line.isVisible(), true);
    const read = await page.locator(".reading td").evaluateAll((all) => all.map((one) => parseFloat(one.textContent)));
    assert.equal(read.at(-1), Math.max(...read.slice(0, -1)));
    await page.close();
  });
});

describe("the list of inputs", () => {
  it("sorts, filters and turns its pages over the 10 000 rows of 12 000 that it holds", async () => {
    const { page } = await open(browser, file("many"));
    await page.locator(".listing summary").click();
    assert.equal(await page.locator(".listing summary").textContent(), "many: 10,000 of 12,000 inputs");
    assert.equal(await page.locator(".place").textContent(), "1 – 100 of 10,000");
    assert.equal((await column(page, 1)).length, 100);
    await page.getByRole("button", { name: "radius" }).click();
    const falling = await column(page, 5);
    assert.deepEqual(falling, [...falling].sort((a, b) => b - a));
    assert.equal(await page.locator("th[aria-sort=descending]").textContent(), "radius");
    await page.getByRole("button", { name: "next" }).click();
    assert.ok(Number((await column(page, 5))[0]) <= Number(falling.at(-1)));
    const wrong = page.locator(".listing .picks").getByText("wrong");
    await wrong.click();
    assert.deepEqual([...new Set(await column(page, 4))], ["wrong"]);
    const hits = /\((\d+) of [\d,]+\)/.exec((await wrong.textContent()).replace(",", ""))[1];
    const place = await page.locator(".place").textContent();
    assert.equal(place.replaceAll(",", ""), `1 – 100 of ${hits}`);
    await page.close();
  });

  it("opens in under two seconds", async (test) => {
    const spent = [], clock = [];
    for (let i = 0; i < 3; i++) {
      const page = await browser.newPage();
      const probe = await page.context().newCDPSession(page);
      // The processor's time, not the clock's: the machine may be busy with other things.
      await probe.send("Performance.enable", { timeDomain: "threadTicks" });
      await page.goto(`file://${file("many")}`);
      clock.push(await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))));
      const { metrics } = await probe.send("Performance.getMetrics");
      spent.push(1000 * metrics.find((one) => one.name === "TaskDuration").value);
      await page.close();
    }
    const words = (times) => times.map((time) => Math.round(time)).join(", ");
    test.diagnostic(`${words(spent)} ms of work; by the clock ${words(clock)} ms`);
    assert.ok(Math.min(...spent) < 2000, `${words(spent)} ms of work`);
  });
});

describe("the gallery", () => {
  it("shows pictures, and sorts and filters them", async () => {
    const { page } = await open(browser, file("many"));
    const shown = page.locator(".gallery .item");
    const radii = async () => (await shown.evaluateAll((all) => all.map((one) => Number(one.dataset.radius))));
    assert.ok((await shown.count()) <= 60);
    assert.ok(await page.locator(".gallery img").evaluateAll((all) => all.every((one) => one.naturalWidth === 8)));
    await page.locator(".order").selectOption("radius");
    const rising = await radii();
    assert.deepEqual(rising, [...rising].sort((a, b) => a - b));
    await page.locator("[aria-labelledby=gallery]").getByText("abstained", { exact: true }).first().click();
    const left = await shown.evaluateAll((all) => all.filter((one) => one.checkVisibility()).map((one) => one.className));
    assert.ok(left.length > 0 && left.every((name) => name.includes("abstained")));
    await page.close();
  });
});

describe("the page", () => {
  it("is whole without scripts, with no control that does nothing", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const { page } = await open(context, file("several"));
    assert.equal(await page.locator(".curve svg").isVisible(), true);
    assert.equal(await page.locator(".live:visible, .slide:visible").count(), 0);
    await page.locator("[aria-labelledby=gallery]").getByText("wrong", { exact: true }).first().click();
    assert.equal(await page.locator(".gallery >> nth=0 >> .item.correct:visible").count(), 0);
    assert.ok((await page.locator(".gallery >> nth=0 >> .item.wrong:visible").count()) > 0);
    await page.locator(".listing summary").first().click();
    assert.equal(await page.locator(".listing >> nth=0 >> tbody tr:visible").count(), 100);
    await context.close();
  });

  it("prints on white without its controls", async () => {
    const { page } = await open(browser, file("several"), { colorScheme: "dark" });
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
    assert.equal(await page.locator(".tools:visible, .slide:visible, .bookmarks:visible, .tick:visible").count(), 0);
    assert.ok((await page.pdf()).length > 10_000);
    await page.close();
  });
});
