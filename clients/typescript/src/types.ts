/** The TypeScript of a plan: which rows each of its metrics takes. */

import { FORMAT } from "./device.js";
import type * as plan from "./plan.js";
import { columnsOf } from "./rows.js";

const MOST = 64; // values that are written out; of more, an editor's list helps nobody

/** A module with an interface `Plan`, for `Device<Plan>`: what `hushbeam-types` prints. */
export function declaration(told: plan.Plan): string {
  if (told.format !== FORMAT || !Array.isArray(told.metrics)) {
    throw new Error(`no plan.json of format ${FORMAT}: \`hushbeam check --json\` prints one`);
  }
  const metrics = told.metrics.flatMap(({ name, client }) => {
    if (client === null) return []; // this client refuses it
    const columns = [...columnsOf(client.encoder)].map(
      ([column, domain]) => `    ${JSON.stringify(column)}: ${typeOf(domain)} | null;\n`,
    );
    return `  ${JSON.stringify(name)}: {\n${columns.join("")}  };\n`;
  });
  const head = "// Written by hushbeam-types: do not edit.\n\n/** The rows of each metric. */\n";
  return `${head}export interface Plan {\n${metrics.join("")}}\n`;
}

function typeOf(domain: plan.Domain | null): string {
  if (domain === null) return "number";
  const { declared, low, values } = domain;
  const many = low === null && (values === null || values.length > MOST);
  if (domain.other || many) return "string | number | boolean"; // all others have a place, too
  if (low !== null) {
    // Beyond 2^53 an integer is told in decimals.
    if (declared > MOST) return "number | `${bigint}`";
    return Array.from({ length: declared }, (_, i) => `${BigInt(low) + BigInt(i)}`).join(" | ");
  }
  return (values ?? []).flatMap(literals).join(" | ");
}

/** What a value's text stands for: "true" and "7" are also what `true` and 7 come to. */
function literals(text: string): string[] {
  const number = Number.isFinite(Number(text)) && String(Number(text)) === text;
  return [JSON.stringify(text), ...(number || /^(true|false)$/.test(text) ? [text] : [])];
}
