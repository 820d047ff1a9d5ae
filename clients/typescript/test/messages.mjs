/** What mechanisms make of inputs: reads [{channel, key, cells}, ...], writes [[message, ...], ...]. */

import { readFile } from "node:fs/promises";

import { Keystream, perturb, unhex } from "../dist/index.js";

const made = [];
for (const { channel, key, cells } of JSON.parse(await readFile(process.argv[2], "utf8"))) {
  made.push((await perturb(channel, cells, await Keystream.open(unhex(key)))).map(String));
}
process.stdout.write(JSON.stringify(made));
