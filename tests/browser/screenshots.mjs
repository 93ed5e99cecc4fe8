// node screenshots.mjs REPORT.html TERMINAL.json FOLDER: called by screenshots.py.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { launch, open } from "./open.mjs";

const [report, screen, folder] = process.argv.slice(2);
const browser = await launch();
const asset = (name) => readFileSync(createRequire(import.meta.url).resolve(name), "utf8");

for (const colorScheme of ["light", "dark"]) {
  const { page } = await open(browser, report, { colorScheme, viewport: { width: 1100, height: 1290 } });
  await page.screenshot({ path: `${folder}/report-${colorScheme}.png` });
  await page.close();
}

const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true };
const { page: small } = await open(browser, report, phone);
await small.screenshot({ path: `${folder}/report-phone.png` });
await small.close();

const { page: wide } = await open(browser, report);
await wide.locator(".bookmarks").evaluate((part) => { part.hidden = true; });
await wide.locator(".gallery").first().evaluate((list) => [...list.children].slice(12).forEach((one) => one.remove()));
await wide.locator("section:has(.gallery)").screenshot({ path: `${folder}/gallery.png` });
await wide.close();

const { text, rows, columns } = JSON.parse(readFileSync(screen, "utf8"));
const page = await browser.newPage({ deviceScaleFactor: 1.5 });
const frame = "padding: 16px; background: #11151b; display: inline-block; border-radius: 10px";
await page.setContent(`<style>${asset("@xterm/xterm/css/xterm.css")}</style><div id="screen" style="${frame}"></div>`);
await page.evaluate(asset("@xterm/xterm/lib/xterm.js"));
await page.evaluate(({ text, rows, columns }) => new Promise((done) => {
  const options = { rows, cols: columns, fontSize: 14, theme: { background: "#11151b" }, cursorInactiveStyle: "none" };
  const terminal = new window.Terminal(options);
  terminal.open(document.getElementById("screen"));
  terminal.write(text, () => requestAnimationFrame(() => setTimeout(done, 200)));
}), { text, rows, columns });
await page.locator("#screen").screenshot({ path: `${folder}/terminal.png` });
await browser.close();
