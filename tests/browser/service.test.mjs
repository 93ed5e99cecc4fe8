// The service's page in a browser. STAND is the address of service.py; SERVICE that of a real service of pictures with
// examples, for what must be true of every one.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, describe, it } from "node:test";

import { changes, length } from "../../smoothcert/server/static/change.js";
import { launch } from "./open.mjs";

const STAND = process.env.STAND;
const SERVICE = process.env.SERVICE;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==", "base64");
let browser;

before(async () => { browser = await launch(); });
after(() => browser.close());

/** The page, with everything it complained about and everything it asked for. */
async function visit(address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const complaints = [], requests = [];
  page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(error.message));
  context.on("request", (request) => requests.push(request));
  await page.goto(`${address}/`);
  return { page, complaints, requests, close: () => context.close() };
}

const text = (page, id) => page.locator(`#${id}`).textContent();
const pressed = (page) => page.locator(".example[aria-pressed=true]").count();
const card = (page, title) => page.locator(".card", { has: page.getByText(title, { exact: true }) }).locator(".value").textContent();

async function certify(page, example = 0, radius = null) {
  await page.locator(".example").nth(example).click();
  if (radius !== null) {
    await page.getByText("at least").click();
    await page.locator("#radius").fill(String(radius));
  }
  await page.locator("#send").click();
  await page.locator("#answer:not(.stale)").waitFor();
}

async function barriers(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  return serious.map((one) => `${one.id}: ${one.nodes[0].html} ${one.nodes[0].failureSummary}`);
}

describe("every service's page", () => {
  for (const colorScheme of ["light", "dark"]) {
    it(`${colorScheme}: answers an example, silently, asking nobody else, without a serious barrier`, async () => {
      const { page, complaints, requests, close } = await visit(SERVICE, { colorScheme });
      await page.locator(".example").first().waitFor();
      assert.deepEqual(await barriers(page), []);
      await certify(page);
      assert.ok((await card(page, "Label")).length > 0);
      assert.deepEqual(await barriers(page), []);
      assert.deepEqual(complaints, []);
      const elsewhere = requests.map((one) => one.url()).filter((url) => !url.startsWith(SERVICE) && !url.startsWith("data:"));
      assert.deepEqual(elsewhere, []);
      await close();
    });
  }

  it("fits a phone", async () => {
    const { page, close } = await visit(SERVICE, { viewport: { width: 360, height: 740 }, isMobile: true });
    await page.locator(".example").first().waitFor();
    const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= 360);
    assert.ok(await fits());
    await certify(page);
    assert.ok(await fits());
    await close();
  });

  it("is operated by keys alone", async () => {
    const { page, close } = await visit(SERVICE);
    await page.locator(".example").first().waitFor();
    const tab = async (wanted) => {
      for (let i = 0; i < 60; i++) {
        await page.keyboard.press("Tab");
        if (await page.evaluate((selector) => document.activeElement.matches(selector), wanted)) {
          return page.evaluate(() => {
            const now = document.activeElement;
            const seen = now.id === "file" ? now.nextElementSibling : now.closest(".picks label") ?? now;
            return getComputedStyle(seen).outlineStyle !== "none";
          });
        }
      }
      return false;
    };
    assert.ok(await tab("#file"));
    assert.ok(await tab(".example"));
    await page.keyboard.press("Enter");
    assert.equal(await pressed(page), 1);
    assert.ok(await tab("[name=mode]"));
    assert.ok(await tab("#send"));
    await page.keyboard.press("Enter");
    await page.locator("#answer").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), "answer-title");
    await close();
  });

  it("links to the certificate: its page, silently, with all of its styles, and its document", async () => {
    const { page, complaints, requests, close } = await visit(SERVICE);
    await certify(page);
    const label = await card(page, "Label"), radius = await card(page, "Certified radius");
    assert.equal(await card(page, "Risk"), "α = 0.001");
    const [tab] = await Promise.all([page.waitForEvent("popup"), page.locator("#certificate").click()]);
    tab.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
    tab.on("pageerror", (error) => complaints.push(error.message));
    await tab.reload();
    await tab.locator("h1").waitFor();
    const told = await tab.locator("body").innerText();
    assert.ok(told.includes(label), told);
    assert.deepEqual(await barriers(tab), []);
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator("#save").click()]);
    const document = JSON.parse(readFileSync(await file.path()));
    assert.equal(document.format, "smoothcert certificate 3");
    assert.equal((Math.floor(1000 * document.answer.radius) / 1000).toFixed(3), radius.replace("ℓ₂", ""));
    assert.deepEqual(complaints, []);
    assert.ok(requests.every((one) => /^(http:\/\/127\.0\.0\.1|data:|blob:)/.test(one.url())));
    await close();
  });

  it("says that it needs its script where scripts are off", async () => {
    const { page, close } = await visit(SERVICE, { javaScriptEnabled: false });
    assert.equal(await page.locator("noscript").isVisible(), true);
    assert.equal(await page.locator("#question").isVisible(), false);
    await close();
  });
});

describe("an answer", () => {
  it("shows label, radius, votes, draws, pictures and the certificate", async () => {
    const { page, requests, close } = await visit(STAND);
    await certify(page, 3);
    assert.equal(await card(page, "Label"), "seven");
    assert.equal(await card(page, "Certified radius"), "0.612ℓ₂");
    assert.equal(await card(page, "Risk"), "α = 0.001");
    assert.deepEqual(await page.locator(".votes li").allInnerTexts().then((rows) => rows.map((row) => row.split(/\n+/))),
      [["seven", "91.4 %"], ["three", "7.1 %"], ["one", "1.2 %"], ["four", "0.3 %"], ["6 other classes", "0.0 %"]]);
    assert.match(await text(page, "saving"), /100,100: nothing was saved/);
    assert.equal(await page.locator("#changes figure").count(), 3);
    assert.match(await page.locator("#changes figcaption").nth(1).textContent(), /ℓ₂ length 0\.61\d of 0\.612/);
    const sent = requests.find((one) => one.method() === "POST");
    const header = Number(sent.headers()["inference-header-content-length"]);
    const asked = JSON.parse(sent.postDataBuffer().subarray(0, header));
    assert.deepEqual(asked.parameters, { mode: "certify", deadline_ms: 60000 });
    assert.equal(sent.postDataBuffer().length - header, 64);
    const [tab] = await Promise.all([page.waitForEvent("popup"), page.locator("#certificate").click()]);
    assert.equal(await tab.locator("h1").textContent(), "Certificate of abc");
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator("#save").click()]);
    assert.equal(file.suggestedFilename(), "certificate-abc.json");
    assert.deepEqual(JSON.parse(readFileSync(await file.path())), { schema: "certificate" });
    await close();
  });

  it("of a known radius shows what was saved", async () => {
    const { page, requests, close } = await visit(STAND);
    await certify(page, 3, 0.5);
    assert.equal(await card(page, "Certified radius"), "0.500ℓ₂");
    assert.match(await text(page, "saving"), /^1,000 instead of the 100,000 draws .* 100 times fewer\.$/);
    assert.match(requests.find((one) => one.method() === "POST").postData(), /"radius":0.5/);
    await close();
  });

  it("that abstains says so, and why, and shows no radius", async () => {
    const { page, close } = await visit(STAND);
    await certify(page, 3, 9);
    assert.equal(await text(page, "reason"), "The service abstains: the deadline came before the draws decided.");
    assert.equal(await card(page, "Label"), "none");
    for (const id of ["change-part", "evidence-part"]) assert.equal(await page.locator(`#${id}`).isVisible(), false);
    assert.match(await text(page, "says"), /^Nothing about this input/);
    await close();
  });

  it("of a label alone promises nothing about neighbours", async () => {
    const { page, requests, close } = await visit(STAND);
    await page.getByText("the label alone").click();
    assert.equal(await page.locator("#radius").isDisabled(), true);
    await page.locator("#n").fill("500");
    await certify(page, 3);
    assert.equal(await page.locator("#change-part").isVisible(), false);
    assert.match(await text(page, "says-not"), /^Anything about other inputs/);
    assert.match(requests.find((one) => one.method() === "POST").postData(), /"mode":"predict","deadline_ms":60000,"n":500/);
    await close();
  });

  it("of a memory is told as a memory's, without an α", async () => {
    const { page, close } = await visit(`${STAND}/memory`);
    await certify(page, 3);
    assert.equal(await card(page, "Source"), "memory");
    assert.match(await text(page, "says"), /^Every later query .* without an α\.$/);
    assert.match(await text(page, "saving"), /^None, instead of/);
    assert.equal(await page.locator("#votes-part").isVisible(), false);
    await close();
  });

  it("takes time, which is shown; who does not want to wait stops waiting", async () => {
    const { page, complaints, close } = await visit(STAND);
    await page.locator(".example").first().click();
    await page.getByText("at least").click();
    await page.locator("#radius").fill("7");
    await page.locator("#send").click();
    await page.locator("#stop").waitFor();
    assert.match(await text(page, "elapsed"), /^\d\.\d s; at 60 s whatever is undecided abstains$/);
    await page.locator("#stop").click();
    await page.locator("#waiting").waitFor({ state: "hidden" });
    assert.equal(await page.locator("#answer, #error").locator("visible=true").count(), 0);
    assert.deepEqual(complaints, []);
    await close();
  });
});

describe("an input", () => {
  const drop = (page, name, content) => page.evaluate(([name, content]) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0))], name));
    document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, [name, content.toString("base64")]);

  it("may be a file that is dropped, or chosen", async () => {
    const { page, close } = await visit(STAND);
    await page.locator(".example").first().click();
    await drop(page, "mine.png", PIXEL);
    await page.getByText("mine.png").waitFor();
    assert.equal(await pressed(page), 0);
    await page.locator("#file").setInputFiles({ name: "other.png", mimeType: "image/png", buffer: PIXEL });
    await page.getByText("other.png").waitFor();
    await page.locator("#send").click();
    await page.locator("#answer").waitFor();
    await close();
  });

  it("that is no image is refused in one line, and so is none at all", async () => {
    const { page, close } = await visit(STAND);
    await page.locator("#send").click();
    await page.getByText("choose a picture first").waitFor();
    await drop(page, "mine.txt", Buffer.from("words"));
    await page.getByText("this file is not an image that the browser can read").waitFor();
    await close();
  });

  it("is sent as its bytes are, channel by channel", async () => {
    for (const [kind, channels, side] of [["", 1, 8], ["/colour", 3, 16]]) {
      const { page, requests, close } = await visit(`${STAND}${kind}`);
      await certify(page, 2);
      const sent = requests.find((one) => one.method() === "POST");
      const bytes = [...sent.postDataBuffer().subarray(Number(sent.headers()["inference-header-content-length"]))];
      const right = await page.evaluate(async ([channels, side]) => {
        const image = await createImageBitmap(await (await fetch("v2/examples/2")).blob());
        const context = new OffscreenCanvas(side, side).getContext("2d");
        context.drawImage(image, 0, 0);
        const { data } = context.getImageData(0, 0, side, side);
        return Array.from({ length: channels }, (_, c) => Array.from({ length: side * side }, (_, i) => data[4 * i + c])).flat();
      }, [channels, side]);
      assert.deepEqual(bytes, right);
      await close();
    }
  });

  it("of a tabular model is a list of numbers", async () => {
    const { page, requests, close } = await visit(`${STAND}/table`);
    await page.locator("#values").fill("0.1 0.2, x");
    await page.locator("#send").click();
    await page.getByText("values must be numbers; got x").waitFor();
    await page.locator("#values").fill("0.1 0.2");
    await page.locator("#send").click();
    await page.getByText("there must be 4 values; got 2").waitFor();
    await page.locator("#values").fill("0.1, 0.2\n0.3;0.4");
    await page.locator("#send").click();
    await page.locator("#answer").waitFor();
    assert.match(await text(page, "change-note"), /^For example every one of 4 values by less than 0\.31/);
    const { inputs } = requests.find((one) => one.method() === "POST").postDataJSON();
    assert.deepEqual(inputs, [{ name: "x", shape: [1, 4], datatype: "FP32", data: [0.1, 0.2, 0.3, 0.4] }]);
    await close();
  });
});

describe("a service that refuses", () => {
  it("is quoted in one line", async () => {
    const { page, close } = await visit(STAND);
    await page.locator(".example").first().click();
    await page.getByText("at least").click();
    await page.locator("#radius").fill("8");
    await page.locator("#send").click();
    await page.locator("#error").waitFor();
    assert.equal(await text(page, "error"), "256 inputs are waiting already (again in 3 s)");
    assert.equal(await page.locator("#waiting").isVisible(), false);
    await page.locator("#radius").fill("0.5");
    await page.locator("#send").click();
    await page.locator("#answer").waitFor();
    assert.equal(await page.locator("#error").isVisible(), false);
    await close();
  });

  it("and asks for a key gets it with every request; the key is kept nowhere", async () => {
    const { page, requests, complaints, close } = await visit(`${STAND}/keyed`);
    await page.locator("#key").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("a key is needed").waitFor();
    assert.deepEqual(await barriers(page), []);
    await page.locator("#key").fill("k-1");
    await page.getByRole("button", { name: "Use it" }).click();
    await certify(page, 3);
    assert.equal(await page.locator("#key-part").isVisible(), false);
    assert.equal(await card(page, "Label"), "seven");
    const [tab] = await Promise.all([page.waitForEvent("popup"), page.locator("#certificate").click()]);
    await tab.getByText("Certificate of abc").waitFor();
    assert.equal(await tab.locator("h1").evaluate((part) => getComputedStyle(part).color), "rgb(1, 2, 3)");
    assert.equal(await tab.locator("p").evaluate((part) => getComputedStyle(part).width), "40px");
    assert.ok(requests.every((one) => !one.url().includes("k-1")));
    const kept = await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]);
    assert.deepEqual(kept, [0, 0, ""]);
    assert.deepEqual(complaints.filter((line) => !line.includes("401")), []);
    await close();
  });
});

describe("the pictures of a change", () => {
  const shapes = [[1, 8, 8], [3, 16, 12]];
  const radii = { l2: [0.001, 0.05, 0.6, 3, 100], l1: [0.01, 1.5, 40], l0: [1, 5, 60], linf: [0.003, 0.031, 0.5], patch: [1, 3, 8] };
  const input = ([c, h, w]) => Uint8Array.from({ length: c * h * w }, (_, i) => (i * 97) % 256);

  for (const [norm, all] of Object.entries(radii)) {
    it(`lie inside the radius in ${norm}, and as near to its edge as whole steps come`, () => {
      for (const shape of shapes) {
        for (const radius of all) {
          const picture = input(shape);
          for (const { pixels, length: told } of changes(picture, shape, norm, radius)) {
            const found = length(norm, picture, pixels, shape), counted = ["l0", "patch"].includes(norm);
            assert.equal(told, found);
            assert.ok(counted ? found <= radius : found < radius);
            const step = counted ? 0 : norm === "linf" ? 1.001 / 255 : (0.1 * radius) + 2 / 255;
            const whole = pixels.every((value, i) => value !== picture[i] && (value === 0 || value === 255));
            assert.ok(found >= Math.min(radius - step, radius) || whole || radius === 100, `${norm} ${radius}: ${found}`);
          }
        }
      }
    });
  }

  it("are measured as the norms are defined", () => {
    const [from, to] = [Uint8Array.from([0, 0, 10]), Uint8Array.from([3, 0, 6])];
    assert.deepEqual(["l0", "l1", "l2", "linf"].map((norm) => length(norm, from, to)), [2, 7 / 255, 5 / 255, 4 / 255]);
    const [blank, stuck] = [new Uint8Array(12), Uint8Array.from([0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1])];
    assert.deepEqual([length("patch", blank, stuck, [1, 3, 4]), length("patch", blank, stuck, [1, 3, 4], [2, 1])], [3, 3]);
    assert.deepEqual([length("patch", blank, stuck, [1, 3, 4], [1, 3]), length("patch", blank, blank, [1, 3, 4])], [2, 0]);
  });
});
