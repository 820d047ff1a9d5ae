/** From the values of rows to the inputs of mechanisms. */

import type * as plan from "./plan.js";
import { dice32, hex, sha256, type Source, utf8 } from "./random.js";

const FINE = 2 ** 32; // parts of a cell, to the nearest of which a number is taken

/** The places of a domain's values; `null` for what is missing, or outside. */
export class Domain {
  private constructor(
    private readonly declared: plan.Domain,
    private readonly places: Map<string, number> | null,
  ) {}

  /** @param listed - the values, where a plan tells their hash alone. */
  static async of(declared: plan.Domain, column: string, listed?: string[]): Promise<Domain> {
    if (declared.low !== null) return new Domain(declared, null);
    const values = declared.values ?? listed;
    if (values === undefined) {
      throw new Error(`column ${column}: the plan has only a hash of its values: give the list`);
    }
    if (values !== declared.values) {
      const lines = utf8(values.map((value) => `${value}\n`).join(""));
      if (values.length !== declared.declared || hex(await sha256(lines)) !== declared.sha256) {
        throw new Error(`column ${column}: these are not the declared values, in their order`);
      }
    }
    return new Domain(declared, new Map(values.map((value, place) => [value, place])));
  }

  get size(): number {
    return this.declared.declared + Number(this.declared.other);
  }

  place(value: plan.Value): number | null {
    if (value === null) return null;
    const place = this.places === null ? this.within(value) : this.places.get(String(value));
    return place ?? (this.declared.other ? this.declared.declared : null);
  }

  private within(value: plan.Value): number | undefined {
    const whole = Number.isInteger(value);
    if (!whole && !(typeof value === "string" && /^-?\d{1,20}$/.test(value))) return undefined;
    const place = BigInt(value as number | string) - BigInt(this.declared.low as string);
    return 0n <= place && place < BigInt(this.declared.declared) ? Number(place) : undefined;
  }
}

/** A finite number, or `null` for anything else. */
export function numberOf(value: plan.Value): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** What rounds numbers of [-1, 1] to the points of a grid. */
export type Coins = (size: number) => Promise<Uint32Array>;

export function freshCoins(source: Source): Coins {
  return (size) => dice32(source, size);
}

/** Numbers in [-1, 1] to grid points 0 .. cells, rounded by coins that keep their mean. */
export async function toGrid(values: number[], cells: number, coins: Coins): Promise<number[]> {
  const drawn = await coins(values.length);
  return values.map((value, i) => {
    const fine = toEven((value + 1) * (cells * 2 ** 31));
    return Math.floor((fine + drawn[i]) / FINE);
  });
}

function toEven(number: number): number {
  const below = Math.floor(number);
  const rest = number - below;
  return below + Number(rest > 0.5 || (rest === 0.5 && below % 2 === 1));
}

export function clip(number: number, low: number, high: number): number {
  return Math.min(Math.max(number, low), high);
}

/** The inputs of rows; rows that cannot be used and have no input are left out. */
export function valuesOf(encoder: plan.Values, domain: Domain, rows: plan.Row[]): number[] {
  return rows.flatMap((row) => domain.place(row[encoder.column]) ?? encoder.unusable ?? []);
}

export async function numbersOf(
  encoder: plan.Numbers,
  rows: plan.Row[],
  coins: Coins,
): Promise<number[]> {
  const { low, high } = encoder;
  const given = rows.map((row) => numberOf(row[encoder.column]) ?? encoder.fill);
  // Clipped before anything is drawn: what is sent is the same for all beyond a bound.
  const scaled = given.flatMap((number) =>
    number === null ? [] : [((clip(number, low, high) - low) / (high - low)) * 2 - 1],
  );
  const cells = await toGrid(scaled, encoder.cells, coins);
  let at = 0;
  return given.flatMap((number) => (number === null ? (encoder.unusable ?? []) : cells[at++]));
}

export function binsOf({ column, low, high, bins }: plan.Bins, rows: plan.Row[]): number[] {
  const half = high / 2 - low / 2;
  return rows.map((row) => {
    const number = numberOf(row[column]);
    if (number === null) return bins;
    const inside = clip(number, low, high);
    // By the edges themselves: a product may round a number over the edge that it lies on.
    let bin = 0;
    while (bin < bins - 1 && inside >= low + (2 * half * (bin + 1)) / bins) bin++;
    return bin;
  });
}

/** Groups of rows, the last of rows that lack a value; and the number of each, NaN for none. */
export function groupsOf(
  encoder: plan.Groups,
  domains: Domain[],
  rows: plan.Row[],
): { groups: number[]; numbers: number[] | null } {
  const declared = domains.reduce((size, domain) => size * domain.size, 1);
  const groups = rows.map((row) => {
    const places = encoder.columns.map(({ column }, i) => domains[i].place(row[column]));
    if (places.includes(null)) return declared;
    return places.reduce<number>((group, place, i) => group * domains[i].size + (place ?? 0), 0);
  });
  if (encoder.number === null) return { groups, numbers: null };
  const column = encoder.number;
  const numbers = rows.map((row) => {
    const number = numberOf(row[column]) ?? NaN;
    return encoder.whole && Math.floor(number) !== number ? NaN : number;
  });
  return { groups, numbers };
}
