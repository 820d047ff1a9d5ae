/**
 * Many devices at once: reads {plan, metric, key?, rows} from a file, a list of rows for each user, and
 * writes the file of all their reports, each under a secret of its own.
 *
 *     node test/population.mjs request.json reports.bin
 */

import { readFile, writeFile } from "node:fs/promises";

import { Device, PublicKey } from "../dist/index.js";

const HEADER = 28;
const AT_ONCE = 64; // a browser's ciphers answer in their own time; so many wait for them together

const [request, output] = process.argv.slice(2);
const { plan, metric, key, rows } = JSON.parse(await readFile(request, "utf8"));
const sealedTo = key === undefined ? null : await PublicKey.of(key);

async function reported(own) {
  const secret = crypto.getRandomValues(new Uint8Array(32));
  const device = new Device(plan, { secret });
  return sealedTo === null ? device.report(metric, own) : device.sealed(metric, own, sealedTo);
}

const parts = [];
for (let start = 0; start < rows.length; start += AT_ONCE) {
  const bodies = await Promise.all(rows.slice(start, start + AT_ONCE).map(reported));
  for (const body of bodies.filter((each) => each !== null)) {
    parts.push(parts.length ? body.subarray(HEADER) : body);
  }
}
await writeFile(output, Buffer.concat(parts));
