/** The same vectors in a browser, and the example's page against its endpoint's other half. */

import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { extname, normalize } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript" };
const PAGE = `<!doctype html><title>vectors</title><script type="module">
import * as client from "/dist/index.js";
import * as internals from "/dist/encoders.js";
import { checks } from "/test/vectors.mjs";
const read = async (name) => (await fetch("/vectors/" + name)).json();
const told = { passed: [], failed: [] };
for (const [name, check] of await checks(client, internals, read)) {
  try { await check(); told.passed.push(name); }
  catch (error) { told.failed.push(name + ": " + error); }
}
window.told = told;
</script>`;

let server, browser, address;

before(async () => {
  server = createServer((request, response) => {
    const path = normalize(new URL(request.url, "http://x").pathname);
    if (path === "/") return response.setHeader("content-type", "text/html").end(PAGE);
    const file = ROOT + path;
    if (!existsSync(file)) return response.writeHead(404).end();
    response.setHeader("content-type", TYPES[extname(path)] ?? "application/json");
    createReadStream(file).pipe(response);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  address = `http://127.0.0.1:${server.address().port}/`;
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});

after(async () => {
  await browser?.close();
  server?.close();
});

test("all vectors in chromium", async () => {
  const page = await browser.newPage();
  await page.goto(address);
  await page.waitForFunction(() => window.told, null, { timeout: 60_000 });
  const { passed, failed } = await page.evaluate(() => window.told);
  if (failed.length || passed.length < 100) {
    throw new Error(`${passed.length} passed; failed: ${failed.join("; ")}`);
  }
});
