import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdtemp, readdir, readFile, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import * as encoders from "../dist/encoders.js";
import * as client from "../dist/index.js";
import { FileStore } from "../dist/node.js";
import * as oblivious from "../dist/oblivious.js";
import { reporterChecks } from "./reporter.mjs";
import { tabChecks } from "./tabs.mjs";
import { checks } from "./vectors.mjs";
import { walletChecks } from "./wallet.mjs";

async function read(name) {
  return JSON.parse(await readFile(new URL(`../vectors/${name}`, import.meta.url), "utf8"));
}

const internals = { ...encoders, ...oblivious };
for (const [name, check] of await checks(client, internals, read)) test(name, check);

const FOLDERS = new WeakMap();

function storeOf(folder) {
  const store = new FileStore(folder);
  FOLDERS.set(store, folder);
  return store;
}

const opened = async () => storeOf(join(await mkdtemp(join(tmpdir(), "hushbeam-")), "store"));
const again = async (store) => storeOf(FOLDERS.get(store));
const [fresh, permanent] = ["fresh", "permanent"].map(async (name) => (await read(`reports-${name}.json`)).plan);
const plans = [await fresh, await permanent];
const { key } = await read("seals.json");
for (const [name, check] of reporterChecks(client, ...plans, key, opened, again)) test(name, check);
for (const [name, check] of walletChecks(client, await read("oblivious.json"), key, opened, again)) {
  test(name, check);
}
for (const [name, check] of tabChecks(client, plans, key)) test(name, check);

test("the files are their owner's alone", async () => {
  const umask = process.umask(0);
  try {
    const store = await opened();
    await client.keptSecret(store);
    await store.write("consent", "given");
    const folder = FOLDERS.get(store);
    assert.equal((await stat(folder)).mode & 0o777, 0o700);
    assert.deepEqual((await readdir(folder)).sort(), ["consent", "secret"]);
    for (const name of ["consent", "secret"]) {
      assert.equal((await stat(join(folder, name))).mode & 0o777, 0o600);
    }
    await chmod(join(folder, "secret"), 0o640);
    await assert.rejects(client.keptSecret(store), /others may read it: chmod 600, or remove it/);
  } finally {
    process.umask(umask);
  }
});

test("a store's names lead nowhere else", async () => {
  const store = await opened();
  for (const name of ["../x", "a/b", "", ".x"]) await assert.rejects(store.write(name, "x"), /names/);
});

test("processes that begin together keep one secret", async () => {
  const folder = FOLDERS.get(await opened());
  const program = `
    import { hex, keptSecret } from ${JSON.stringify(new URL("../dist/index.js", import.meta.url))};
    import { FileStore } from ${JSON.stringify(new URL("../dist/node.js", import.meta.url))};
    await new Promise((ready) => setTimeout(ready, Number(process.argv[1]) - Date.now()));
    for (let k = 0; k < 20; k++) {
      console.log(hex(await keptSecret(new FileStore(process.argv[2] + k))));
    }`;
  const start = String(Date.now() + 1000);
  const words = ["--input-type=module", "--eval", program, start, folder];
  const said = await Promise.all(
    Array.from({ length: 6 }, () => promisify(execFile)(process.execPath, words)),
  );
  const [first, ...others] = said.map(({ stdout }) => stdout);
  assert.equal(new Set(first.trim().split("\n")).size, 20);
  for (const other of others) assert.equal(other, first);
});
