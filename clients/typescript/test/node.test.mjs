import { readFile } from "node:fs/promises";
import { test } from "node:test";

import * as client from "../dist/index.js";
import * as internals from "../dist/encoders.js";
import { checks } from "./vectors.mjs";

async function read(name) {
  return JSON.parse(await readFile(new URL(`../vectors/${name}`, import.meta.url), "utf8"));
}

for (const [name, check] of await checks(client, internals, read)) test(name, check);
