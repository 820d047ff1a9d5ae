/** The module in Node: `node --test`, with its path in HUSHBEAM_WASM. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { open } from "./hushbeam.mjs";

const folder = new URL("../../../typescript/vectors/", import.meta.url);
const read = async (name) => JSON.parse(await readFile(new URL(name, folder), "utf8"));
const bytes = await readFile(process.env.HUSHBEAM_WASM);
const client = await open(bytes);
const hex = (made) => Buffer.from(made).toString("hex");
const opened = (vectors) =>
  client.device(JSON.stringify(vectors.plan), Buffer.from(vectors.secret, "hex"));

test("permanent reports are those of the vectors", async () => {
  const vectors = await read("reports-permanent.json");
  const cases = vectors.cases.filter(({ rows }) => rows.length === 1); // which draw nothing else
  assert.ok(cases.length >= 12);
  const device = opened(vectors);
  for (const { metric, rows, report } of cases) {
    assert.equal(hex(device.report(metric, JSON.stringify(rows))), report, metric);
  }
  device.free();
});

test("counters are sealed, and two seals differ", async () => {
  const [vectors, { key }] = [await read("reports-counters.json"), await read("seals.json")];
  const { rows, words } = vectors.cases.find(({ metric }) => metric === "apart");
  const device = opened(vectors);
  const sent = [0, 1].map(() => device.report("apart", JSON.stringify(rows), key));
  assert.equal(sent[0].length, 28 + 28 + 56 * words.length);
  assert.notEqual(hex(sent[0]), hex(sent[1]));
  assert.equal(device.report("apart", "[]", key), null);
});

test("what does not fit is refused, and no value is told", async () => {
  const device = opened(await read("reports-fresh.json"));
  const refused = (rows, wanted) => assert.throws(() => device.report("olh", rows), wanted);
  refused('[{"pgae": "canary"}]', /^Error: metric olh has no column "pgae": its columns are page$/);
  refused('[{"page": ["canary"]}]', /^Error: rows must be a JSON list of objects/);
  assert.throws(() => client.device("{}", new Uint8Array(32)), /no plan\.json/);
});

test("a request has its elements, and refuses an answer of another key", () => {
  const key = crypto.getRandomValues(new Uint8Array(32));
  const [window, later] = ["ab".repeat(16), "cd".repeat(16)];
  const request = client.request(3, key, window);
  const again = client.request(3, key, window); // as after an answer that was lost
  assert.deepEqual(again.elements, request.elements);
  again.free();
  for (const bound of [[later], [window, "queries"]]) {
    const other = client.request(3, key, ...bound);
    assert.notDeepEqual(other.elements, request.elements);
    other.free();
  }
  assert.equal(request.elements.length, 3 * 32);
  const refused = () => request.tokens(new Uint8Array(160), new Uint8Array(32));
  assert.throws(refused, /the answer is not of the published key/);
  request.free();
});

test("strings ask for all slots, and refuse an answer of another key", async () => {
  const [vectors, { key }] = [await read("reports-counters.json"), await read("seals.json")];
  const strings = opened(vectors).strings("hours", ["soup"], [3, 10], key);
  assert.equal(strings.elements.length, 3 * 32);
  const refused = () => strings.report(new Uint8Array(160), new Uint8Array(32));
  assert.throws(refused, /the answer is not of the published key/);
  strings.free();
});
