/** Bundles the one library of the client into the module that uses it, so that pages need no other. */

import { readFile, writeFile } from "node:fs/promises";

import { build } from "esbuild";

const FOLDER = "node_modules/@cloudflare/voprf-ts";
const BUNDLED = [`${FOLDER}/LICENSE.txt`, "node_modules/@noble/curves/LICENSE", "node_modules/@noble/hashes/LICENSE"];

/** The library's other group, SJCL, is never used and is a third of the bundle. */
const withoutSjcl = {
  name: "without SJCL",
  setup: ({ onLoad }) =>
    onLoad({ filter: /cryptoSjcl\.js$/ }, () => ({ contents: "export const CryptoSjcl = undefined;" })),
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
  plugins: [withoutSjcl],
});
const licences = await Promise.all(BUNDLED.map((path) => readFile(path, "utf8")));
await writeFile("dist/oblivious.licenses.txt", licences.join("\n"));
