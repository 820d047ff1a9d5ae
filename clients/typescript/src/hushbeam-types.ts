#!/usr/bin/env node
/** `hushbeam-types plan.json > plan.d.ts`: the types of a plan's rows. */

import { readFileSync } from "node:fs";

import { declaration } from "./types.js";

try {
  const [path, ...others] = process.argv.slice(2);
  if (!path || others.length) throw new Error("usage: hushbeam-types plan.json > plan.d.ts");
  process.stdout.write(declaration(JSON.parse(readFileSync(path, "utf8"))));
} catch (error) {
  console.error(`hushbeam-types: ${(error as Error).message}`);
  process.exitCode = 1;
}
