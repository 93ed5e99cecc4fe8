// Debian's Chromium, driven by playwright-core. CHROMIUM names another binary.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const NAMES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** A browser without a sandbox, because tests may run as root; it opens nothing but files of ours. */
export function launch() {
  const binary = process.env.CHROMIUM || NAMES.find(existsSync);
  return chromium.launch({ executablePath: binary, args: ["--no-sandbox", "--disable-gpu"] });
}

/** The page of a file, with everything it complained about and everything it asked for. */
export async function open(browser, file, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1100, height: 900 }, ...options });
  const complaints = [], requests = [];
  page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(`file://${file}`);
  return { page, complaints, requests: () => requests.filter((url) => !url.startsWith("data:")) };
}

/** Opens every part that is folded. */
export const unfold = (page) =>
  page.evaluate(() => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
