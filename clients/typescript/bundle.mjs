/** Bundles the one library of the client into the module that uses it, so that pages need no other. */

import { readFile, writeFile } from "node:fs/promises";

import { build } from "esbuild";

const FOLDER = "node_modules/@cloudflare/voprf-ts";
const BUNDLED = [`${FOLDER}/LICENSE.txt`, "node_modules/@noble/curves/LICENSE", "node_modules/@noble/hashes/LICENSE"];

// What the library brings beside ristretto255: a third of the bundle, and 0.2 s as it is loaded.
const UNUSED = /cryptoSjcl\.js$|curves\/esm\/(p256|p384|p521|ed448)\.js$/;
const STUB = `const none = { CURVE: { n: 3n, p: 3n, Fp: { BYTES: 1 }, hash: {} } };
export { none as CryptoSjcl, none as p256, none as p384, none as p521, none as ed448 };
export const [hashToCurve, hashToDecaf448, DecafPoint] = [];`;
const withoutUnused = {
  name: "without unused groups",
  setup: ({ onLoad }) => onLoad({ filter: UNUSED }, () => ({ contents: STUB })),
};

await build({
  entryPoints: ["dist/oblivious.js"],
  outfile: "dist/oblivious.js",
  allowOverwrite: true,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none", // the whole licences are in a file beside
  external: ["./random.js"],
  // Its package names the CommonJS build first, of which nothing can be left out.
  alias: {
    "@cloudflare/voprf-ts": `./${FOLDER}/lib/esm/src/index.js`,
    "@cloudflare/voprf-ts/crypto-noble": `./${FOLDER}/lib/esm/src/cryptoNoble.js`,
  },
  plugins: [withoutUnused],
});
const licences = await Promise.all(BUNDLED.map((path) => readFile(path, "utf8")));
await writeFile("dist/oblivious.licenses.txt", licences.join("\n"));
