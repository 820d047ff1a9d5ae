/** What `npm pack` packs, installed in an empty folder: its files, its command, its types. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TSC = join(ROOT, "node_modules", "typescript", "bin", "tsc");
const OPTIONS = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"];
const run = promisify(execFile);

let folder;

const node = (...words) => run(process.execPath, words, { cwd: folder });
const written = (name, text) => writeFile(join(folder, name), text);
const vectors = async (name) =>
  JSON.parse(await readFile(join(ROOT, "vectors", `reports-${name}.json`), "utf8"));

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "hushbeam-package-"));
  // No script: what is tested is the build that the other tests have.
  await run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], { cwd: ROOT });
  const [packed] = await readdir(folder);
  await written("package.json", '{"type": "module"}');
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", `./${packed}`], { cwd: folder });
});

test("the package holds the build, its types, README and LICENSE", async () => {
  const installed = join(folder, "node_modules", "hushbeam-client");
  assert.deepEqual((await readdir(installed)).sort(), ["LICENSE", "README.md", "dist", "package.json"]);
  const modules = (await readdir(join(ROOT, "src"))).map((name) => name.replace(/\.ts$/, ""));
  assert.deepEqual(
    (await readdir(join(installed, "dist"))).sort(),
    [...modules.flatMap((name) => [`${name}.d.ts`, `${name}.js`]), "oblivious.licenses.txt"].sort(),
  );
  const bundled = await readFile(join(installed, "dist", "oblivious.licenses.txt"), "utf8");
  assert.deepEqual(
    ["Cloudflare", "Paul Miller"].map((name) => bundled.match(new RegExp(`Copyright.* ${name}`, "g")).length),
    [2, 2],
  );
  const licence = (path) => readFile(path, "utf8");
  assert.equal(await licence(join(installed, "LICENSE")), await licence(join(ROOT, "../../LICENSE")));
  const beside = await readdir(join(folder, "node_modules"));
  assert.deepEqual(beside.filter((name) => !name.startsWith(".")), ["hushbeam-client"]);
});

test("an empty folder makes a report of it", async () => {
  const { plan } = await vectors("fresh");
  await written("plan.json", JSON.stringify(plan));
  await written(
    "report.js",
    `import { readFileSync } from "node:fs";
    import { Device, keptSecret } from "hushbeam-client";
    import { FileStore } from "hushbeam-client/node";
    const plan = JSON.parse(readFileSync("plan.json", "utf8"));
    const device = new Device(plan, { secret: await keptSecret(new FileStore("kept")) });
    console.log((await device.report("grr", [{ hour: 3 }])).length);`,
  );
  assert.equal((await node("report.js")).stdout, "56\n");
});

const HEAD = `import { Device, FORMAT, type PublicKey, Reporter, type ReporterOptions } from "hushbeam-client";
import type * as client from "hushbeam-client";
import { FileStore } from "hushbeam-client/node";
import type { Plan } from "./plan.js";
declare const plan: client.Plan;
declare const secret: client.Bytes;
declare const key: PublicKey;
declare const options: ReporterOptions;
const device = new Device<Plan>(plan, { secret });
const reporter = new Reporter<Plan>({ ...options, store: new FileStore("kept") });
export { device, FORMAT, key, reporter };
`;
const RIGHT = [
  'device.report("grr", [{ hour: 9 }]);',
  'device.report("grr", [{ hour: null }]);',
  'device.report("mean", [{ fare: 12.5 }]);',
  'device.report("olh", [{ page: "anything" }]);',
  'device.sealed("few", [{ meal: "soup" }, { meal: 7 }, { meal: true }, { meal: "7" }], key);',
  'device.sealed("many", [{ id: 2 ** 40 }, { id: "9007199254740993" }], key);',
  'device.sealed("apart", [{ hour: 3, fare: 2 }], key);',
  'device.sealed("total", [{}], key);',
  'reporter.report("few", [{ meal: "soup" }]);',
  'new Device(plan, { secret }).report("any name", [{ any: "column" }]);',
];
const WRONG = {
  'device.report("grrr", [{ hour: 3 }]);': 2345,
  'device.report("withheld", [{ hour: 3 }]);': 2345,
  'device.report("grr", [{ hours: 3 }]);': 2561,
  'device.report("grr", [{}]);': 2741,
  'device.report("grr", [{ hour: 10 }]);': 2322,
  'device.report("grr", [{ hour: undefined }]);': 2322,
  'device.report("grr", [{ hour: 3, page: "page 1" }]);': 2353,
  'device.report("mean", [{ fare: "12.5" }]);': 2322,
  'device.sealed("few", [{ meal: "salad" }], key);': 2322,
  'device.sealed("many", [{ id: "one" }], key);': 2322,
  'device.sealed("apart", [{ hour: 3 }], key);': 2741,
  'device.sealed("grr", [{ hour: 3 }]);': 2554,
  'reporter.report("few", [{ meal: "salad" }]);': 2322,
  'new Device(plan, { secret }).report("any name", [{ any: new Date() }]);': 2322,
};

test("types of a plan: right programs compile, and each wrong one does not", async () => {
  const [{ plan }, { plan: counters }] = [await vectors("fresh"), await vectors("counters")];
  const named = (name) => counters.metrics.find((metric) => metric.name === name);
  const values = (column, domain) => ({
    ...structuredClone(plan.metrics[0].client),
    encoder: { encoder: "values", column, domain, unusable: 0 },
  });
  const list = { declared: 3, other: false, low: null, values: ["soup", "7", "true"], sha256: null };
  const range = { ...list, declared: 2 ** 50, low: "9007199254740900", values: null };
  const total = structuredClone(named("spent"));
  total.client.encoder.number = null;
  plan.metrics.push(
    { ...plan.metrics[0], name: "few", client: values("meal", list) },
    { ...plan.metrics[0], name: "many", client: values("id", range) },
    { ...plan.metrics[0], name: "withheld", client: null },
    named("apart"),
    { ...total, name: "total" },
  );
  await written("plan.json", JSON.stringify(plan));
  // --no: never fetch another package that has the name of the command.
  const { stdout } = await run("npx", ["--no", "hushbeam-types", "plan.json"], { cwd: folder });
  assert.match(stdout, /^ {4}"meal": "soup" \| "7" \| 7 \| "true" \| true \| null;$/m);
  assert.match(stdout, /^ {4}"hour": 1 \| 2 \| 3 \| 4 \| 5 \| 6 \| 7 \| 8 \| 9 \| null;$/m);
  await written("plan.d.ts", stdout);
  await written("right.ts", HEAD + RIGHT.join("\n"));
  const wrong = Object.keys(WRONG);
  await written("wrong.ts", HEAD + wrong.join("\n"));
  const types = ["--types", "node", "--typeRoots", join(ROOT, "node_modules", "@types")];
  await node(TSC, ...OPTIONS, ...types, "right.ts");
  const failed = await node(TSC, ...OPTIONS, ...types, "wrong.ts").catch((error) => error);
  const found = [...failed.stdout.matchAll(/^wrong\.ts\((\d+),\d+\): error TS(\d+)/gm)].map((hit) => [
    wrong[Number(hit[1]) - HEAD.split("\n").length],
    Number(hit[2]),
  ]);
  assert.deepEqual(Object.fromEntries(found), WRONG);
  assert.equal(found.length, wrong.length);
});

test("names of a plan are quoted, whatever they are", async () => {
  const { plan } = await vectors("fresh");
  plan.metrics[0].name = 'a"b\n*/}';
  plan.metrics[0].client.encoder.column = "__proto__";
  plan.collection = "*/ \u2028 declare const x: 1;";
  await written("odd.json", JSON.stringify(plan));
  const { stdout } = await run("npx", ["--no", "hushbeam-types", "odd.json"], { cwd: folder });
  await written("odd.d.ts", stdout);
  await written(
    "named.ts",
    `import type { Plan } from "./odd.js";
    export const row: Plan['a"b\\n*/}'] = { ["__proto__"]: 3 };`,
  );
  await node(TSC, ...OPTIONS, "named.ts");
});

test("the command says in a line what it cannot do", async () => {
  const { plan } = await vectors("fresh");
  await written("later.json", JSON.stringify({ ...plan, format: 2 }));
  await written("broken.json", "{");
  for (const [words, said] of [
    [[], /^hushbeam-types: usage: hushbeam-types plan.json > plan.d.ts\n$/],
    [["none.json"], /^hushbeam-types: .*ENOENT.*none.json.*\n$/],
    [["later.json"], /^hushbeam-types: no plan.json of format 1: .hushbeam check --json. prints one\n$/],
    [["broken.json"], /^hushbeam-types: .*JSON.*\n$/],
  ]) {
    const failed = await run("npx", ["--no", "hushbeam-types", ...words], { cwd: folder }).catch((e) => e);
    assert.equal(failed.code, 1);
    assert.equal(failed.stdout, "");
    assert.match(failed.stderr, said);
  }
});
