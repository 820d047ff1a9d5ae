/** The same vectors in a browser, and the example's page against its endpoint's other half. */

import assert from "node:assert/strict";
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
import * as encoders from "/dist/encoders.js";
import * as oblivious from "/dist/oblivious.js";
import { reporterChecks } from "/test/reporter.mjs";
import { checks } from "/test/vectors.mjs";
import { walletChecks } from "/test/wallet.mjs";
const read = async (name) => (await fetch("/vectors/" + name)).json();
const told = { passed: [], failed: [] };
const run = async (list) => {
  for (const [name, check] of list) {
    try { await check(); told.passed.push(name); }
    catch (error) { told.failed.push(name + ": " + error); }
  }
};
await run(await checks(client, { ...encoders, ...oblivious }, read));
const names = new WeakMap();
const named = async (name) => {
  const store = await client.browserStore(name);
  names.set(store, name);
  return store;
};
const opened = () => named(crypto.randomUUID());
const again = (store) => named(names.get(store));
const plans = [(await read("reports-fresh.json")).plan, (await read("reports-permanent.json")).plan];
const { key } = await read("seals.json");
const told_of_parties = await read("oblivious.json");
const kept = () =>
  run([
    ...reporterChecks(client, ...plans, key, opened, again),
    ...walletChecks(client, told_of_parties, key, opened, again),
  ]);
await kept();
const databases = (await indexedDB.databases()).length;
indexedDB.open = () => { throw new Error("blocked"); };
await kept();
told.databases = [databases, (await indexedDB.databases()).length];
told.locally = Object.keys(localStorage).length;
window.told = told;
</script>`;
const EMPTY = "<!doctype html><title>a tab</title>";

let server, browser, address;

before(async () => {
  server = createServer((request, response) => {
    const path = normalize(new URL(request.url, "http://x").pathname);
    const page = { "/": PAGE, "/tab": EMPTY }[path];
    if (page) return response.setHeader("content-type", "text/html").end(page);
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
  const { passed, failed, databases, locally } = await page.evaluate(() => window.told);
  assert.deepEqual(failed, []);
  assert.ok(passed.length > 200, `${passed.length} passed`);
  // The stores were those that they should be.
  assert.ok(databases[0] > 10);
  assert.equal(databases[1], databases[0]);
  assert.ok(locally > 10);
});

for (const kind of ["IndexedDB", "localStorage"]) {
  test(`two tabs keep one secret in ${kind}`, async () => {
    const context = await browser.newContext();
    const tabs = await Promise.all(Array.from({ length: 4 }, () => context.newPage()));
    await Promise.all(tabs.map((tab) => tab.goto(`${address}tab`)));
    const secrets = await Promise.all(
      tabs.map((tab) =>
        tab.evaluate(async (blocked) => {
          if (blocked) indexedDB.open = () => { throw new Error("blocked"); };
          const { browserStore, hex, keptSecret } = await import("/dist/index.js");
          await new Promise((ready) => setTimeout(ready, 1000 - (Date.now() % 1000)));
          const names = Array.from({ length: 30 }, (_, k) => `store ${k}`);
          const kept = async (name) => hex(await keptSecret(await browserStore(name)));
          return Promise.all(names.map(kept));
        }, kind === "localStorage"),
      ),
    );
    assert.equal(new Set(secrets[0]).size, 30);
    for (const other of secrets) assert.deepEqual(other, secrets[0]);
    await context.close();
  });
}

test("a report that waits survives a reload, and goes when the endpoint is there", async () => {
  const page = await browser.newPage();
  const bodies = [];
  let away = true;
  await page.route("**/reports", (route) => {
    if (away) return route.abort();
    bodies.push(route.request().postDataBuffer());
    return route.fulfill({ status: 204 });
  });
  const reported = (first) =>
    page.evaluate(async (report) => {
      const { browserStore, PublicKey, Reporter } = await import("/dist/index.js");
      const read = async (name) => (await fetch("/vectors/" + name)).json();
      const reporter = new Reporter({
        plan: (await read("reports-fresh.json")).plan,
        key: await PublicKey.of((await read("seals.json")).key),
        endpoint: "/reports",
        store: await browserStore(),
        backoff: { tries: 2, first: 1 },
      });
      if (!report) return reporter.flush();
      await reporter.consent();
      return reporter.report("olh", [{ page: "page 7" }]);
    }, first);
  await page.goto(`${address}tab`);
  assert.equal(await reported(true), "waiting");
  await page.reload();
  assert.equal(await reported(false), 1);
  away = false;
  await page.reload();
  assert.equal(await reported(false), 0);
  assert.equal(await reported(true), "sent");
  assert.deepEqual(bodies.map((body) => body.length), [28 + 2 + 18 + 8 + 56]);
  await page.close();
});
