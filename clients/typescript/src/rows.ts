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
      if (encoder.number !== null) columns.set(encoder.number, null);
      return columns;
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
    for (const name of Reflect.ownKeys(row)) {
      if (typeof name === "string" && columns.has(name)) continue;
      const names = [...columns.keys()].join(", ") || "none";
      const told = typeof name === "string" ? JSON.stringify(name) : "that is a symbol";
      throw new Error(`metric ${metric} has no column ${told}: its columns are ${names}`);
    }
    const copy = Object.create(null) as plan.Row;
    for (const [column, domain] of columns) copy[column] = valueOf(metric, row, column, domain);
    return copy;
  });
}

/** An object literal, or what JSON makes; of another frame or realm, too. */
function isRecord(row: unknown): row is Record<string, unknown> {
  if (typeof row !== "object" || row === null || Array.isArray(row)) return false;
  const parent = Object.getPrototypeOf(row) as object | null;
  return parent === null || Object.hasOwn(parent, "isPrototypeOf"); // as Object.prototype alone has
}

function valueOf(
  metric: string,
  row: Record<string, unknown>,
  column: string,
  domain: plan.Domain | null,
): plan.Value {
  const at = `metric ${metric}, column ${JSON.stringify(column)}`;
  if (!Object.hasOwn(row, column)) throw new Error(`${at}: a row lacks it: null says "missing"`);
  let value: unknown;
  try {
    value = row[column];
  } catch {
    throw new Error(`${at}: a row's getter failed`); // what it threw may tell the value
  }
  if (value === null) return value;
  if (domain === null) {
    if (typeof value === "number") return value; // a number that is not finite counts as missing
    throw new Error(`${at}: takes a number, or null for what is missing`);
  }
  if (typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new Error(`${at}: takes a string, a finite number or a boolean, or null for what is missing`);
}
