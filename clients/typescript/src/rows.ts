/** Rows as a metric takes them: what does not fit is refused before anything is drawn. */

import type * as plan from "./plan.js";

/** The columns that an encoder reads, each with its domain, or `null` where it holds numbers. */
export function columnsOf(encoder: plan.Encoder): Map<string, plan.Domain | null> {
  switch (encoder.encoder) {
    case "values":
      return new Map([[encoder.column, encoder.domain]]);
    case "numbers":
    case "bins":
      return new Map([[encoder.column, null]]);
    case "groups": {
      const columns = new Map<string, plan.Domain | null>();
      for (const { column, domain } of encoder.columns) columns.set(column, domain);
      return encoder.number === null ? columns : columns.set(encoder.number, null);
    }
    default:
      throw new Error("this client does not know the encoder: a newer one may");
  }
}

/**
 * Copies of rows that have all columns of a metric and no others. A misspelt column, or a text in
 * the place of a number, would else be reported as missing, and nobody could tell it from noise.
 */
export function checkedRows(metric: string, encoder: plan.Encoder, rows: unknown): plan.Row[] {
  const columns = columnsOf(encoder);
  if (!Array.isArray(rows)) throw new Error(`metric ${metric}: rows must be a list of objects`);
  // `Array.from` visits holes. A copy is read once, and has no prototype to find columns in.
  return Array.from(rows, (row: unknown) => {
    if (!isRecord(row)) throw new Error(`metric ${metric}: each row must be a plain object`);
    const other = Reflect.ownKeys(row).find((name) => !columns.has(name as string));
    if (other !== undefined) {
      const name = typeof other === "string" ? JSON.stringify(other) : "that is a symbol";
      const names = [...columns.keys()].join(", ") || "none";
      throw new Error(`metric ${metric} has no column ${name}: its columns are ${names}`);
    }
    const copy = Object.create(null) as plan.Row;
    for (const [column, domain] of columns) {
      const at = `metric ${metric}, column ${JSON.stringify(column)}`;
      copy[column] = checkedValue(at, read(at, row, column), domain);
    }
    return copy;
  });
}

/** An object literal, or what JSON makes; of another frame or realm, too. */
function isRecord(row: unknown): row is Record<string, unknown> {
  if (typeof row !== "object" || row === null || Array.isArray(row)) return false;
  const parent = Object.getPrototypeOf(row) as object | null;
  return parent === null || Object.hasOwn(parent, "isPrototypeOf"); // as Object.prototype alone has
}

function read(at: string, row: Record<string, unknown>, column: string): unknown {
  if (!Object.hasOwn(row, column)) throw new Error(`${at}: a row lacks it: null says "missing"`);
  try {
    return row[column];
  } catch {
    throw new Error(`${at}: a row's getter failed`); // what it threw may tell the value
  }
}

function checkedValue(at: string, value: unknown, domain: plan.Domain | null): plan.Value {
  if (value === null) return value;
  // Not a number among numbers is a missing one: docs/appendix/wire.md.
  if (typeof value === "number" && (domain === null || Number.isFinite(value))) return value;
  if (domain !== null && (typeof value === "string" || typeof value === "boolean")) return value;
  const wanted = domain === null ? "a number" : "a string, a finite number or a boolean";
  throw new Error(`${at}: takes ${wanted}, or null for what is missing`);
}
