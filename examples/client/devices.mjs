/**
 * Made-up users of the example, each a device with a secret of its own:
 *
 *     node examples/client/devices.mjs site http://localhost:8080/reports 1250
 *
 * `site` has the built client, plan.json and key.pem. Of ten users four have soup, three salad, two
 * a sandwich, one nothing; what is sent is randomised.
 */

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [site, endpoint, users] = process.argv.slice(2);
const { Device, post, PublicKey } = await import(pathToFileURL(resolve(site, "client/index.js")));
const plan = JSON.parse(await readFile(join(site, "plan.json"), "utf8"));
const key = await PublicKey.of(await readFile(join(site, "key.pem"), "utf8"));
const LUNCHES = "soup soup soup soup salad salad salad sandwich sandwich nothing".split(" ");
const AT_ONCE = 50;

async function reported(user) {
  const secret = crypto.getRandomValues(new Uint8Array(32));
  const rows = [{ lunch: LUNCHES[user % LUNCHES.length] }];
  const body = await new Device(plan, { secret }).sealed("lunch", rows, key);
  return post(endpoint, body, { tries: 8 }); // the endpoint may be starting still
}

const answers = {};
for (let start = 0; start < Number(users); start += AT_ONCE) {
  const size = Math.min(AT_ONCE, Number(users) - start);
  const batch = Array.from({ length: size }, (_, i) => reported(start + i));
  for (const answer of await Promise.all(batch)) answers[answer] = (answers[answer] ?? 0) + 1;
}
console.log(answers);
