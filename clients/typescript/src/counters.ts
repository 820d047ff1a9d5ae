/** The report of a unit to noisy counters: a word for each slot, none of them randomised. */

import { clip, freshCoins, toGrid } from "./encoders.js";
import type * as plan from "./plan.js";
import { type Source, below, words } from "./random.js";

const NONE = -1;

type Sets = Promise<number[][]>;

/** The words of one unit's report, slot by slot; `null` without rows. */
export async function slotWords(
  counters: plan.Counters,
  groups: number[],
  numbers: number[] | null,
  source: Source,
): Promise<bigint[] | null> {
  if (!groups.length) return null;
  const { unit } = counters;
  const sets =
    unit.raises === "path"
      ? await path(unit, groups, source)
      : await totals(unit, groups, numbers, source);
  return inSlots(counters, sets);
}

/** The level of each slot. */
export function slotLevels(counters: plan.Counters): number[] {
  return counters.levels.flatMap((level, i) => new Array<number>(level.slots).fill(i));
}

/** Places in levels to codes: of all counters, level by level, and then a null for each level. */
function inSlots({ levels }: plan.Counters, sets: number[][]): bigint[] {
  const all = levels.reduce((size, level) => size + level.counters, 0);
  let start = 0;
  return levels.flatMap((level, i) => {
    const places = sets[i];
    const raised = places.filter((place) => place !== NONE);
    const known = raised.every((place) => 0 <= place && place < level.counters);
    if (places.length !== level.slots || !known || new Set(raised).size !== raised.length) {
      throw new Error("these rows do not fit the counters of the plan"); // never which
    }
    const codes = places.map((place) => BigInt(place === NONE ? all + i : start + place));
    start += level.counters;
    return codes;
  });
}

async function path({ bins, sizes }: plan.TreePath, cells: number[], source: Source): Sets {
  const drawn = await words(source, cells.length);
  const chosen = drawn.reduce((least, word, i) => (word < drawn[least] ? i : least), 0);
  const cell = cells[chosen];
  const none = cell === bins;
  return [...sizes.map((size) => [none ? NONE : Math.floor(cell / size)]), [none ? 0 : NONE]];
}

interface Total {
  group: number; // NONE where there is none
  amount: number;
  rows: number;
}

async function totals(
  unit: plan.GroupTotals,
  groups: number[],
  numbers: number[] | null,
  source: Source,
): Sets {
  const summed = new Map<number, Total>();
  groups.forEach((group, row) => {
    const amount = numbers === null ? 1 : numbers[row];
    if (Number.isNaN(amount)) return;
    const total = summed.get(group) ?? { group, amount: 0, rows: 0 };
    total.amount += amount;
    total.rows += 1;
    summed.set(group, total);
  });
  let found = [...summed.values()].sort((a, b) => a.group - b.group);
  let limited = found.length > unit.most_groups;
  if (limited) {
    // Of more groups than a unit may have some: the first steps of a shuffle of Fisher and Yates.
    for (let step = 0; step < unit.most_groups; step++) {
      const other = step + (await below(source, found.length - step));
      [found[step], found[other]] = [found[other], found[step]];
    }
    found = found.slice(0, unit.most_groups);
  }
  while (found.length < unit.most_groups) found.push({ group: NONE, amount: 0, rows: 0 });
  if (unit.numbers === null) {
    limited ||= unit.most > 1 && found.some((total) => total.amount > unit.most);
    for (const total of found) total.amount = Math.min(total.amount, unit.most);
  } else {
    if (unit.averaged) for (const total of found) total.amount /= Math.max(total.rows, 1);
    limited = (await inUnits(unit.numbers, found, source)) || limited;
  }
  const told: Record<string, boolean> = {
    limited,
    // An average leaves out what is no number: it is missing where nothing is left.
    unusable: numbers !== null && numbers.length > 0 &&
      (unit.averaged ? numbers.every(Number.isNaN) : numbers.some(Number.isNaN)),
  };
  const sets = digitsOf(unit, found);
  if (unit.present) sets.push([0]);
  if (unit.beside.length) sets.push(unit.beside.map((name, i) => (told[name] ? i : NONE)));
  return sets;
}

/** Clips amounts and rounds them to units by a coin; whether one was clipped. */
async function inUnits(
  numbers: plan.NumberUnits,
  found: Total[],
  source: Source,
): Promise<boolean> {
  const { low, high, origin, bound, units, sign } = numbers;
  const clipped = found.map(({ group, amount }) =>
    group === NONE ? origin : clip(amount, low, high),
  );
  const beyond = found.some(({ group, amount }, i) => group !== NONE && amount !== clipped[i]);
  // Differences may round past the bound by a hair.
  const away = clipped.map((amount) => clip(sign * (amount - origin), -bound, bound) / bound);
  const cells = await toGrid(away, 2 * units, freshCoins(source));
  found.forEach((total, i) => (total.amount = cells[i] - units));
  return beyond;
}

/** The counters that tell of totals, digit by digit. */
function digitsOf(unit: plan.GroupTotals, found: Total[]): number[][] {
  const { digits, groups, least, weights } = unit;
  if (digits === "moments") throw new Error("this client sends no squares of numbers");
  const whole = Math.floor(Math.log2(unit.most + 1)); // digits of the weights 1, 2, 4, ...
  const rest = weights.length > whole ? weights[whole] : 0;
  const sets: number[][] = weights.map(() => []);
  for (const { group, amount } of found) {
    let left = digits === "lifted" && amount < 0 ? amount - least : Math.abs(amount);
    const more = left >= 2 ** whole;
    if (more) left -= rest;
    const [set, unset] =
      digits === "ends"
        ? [group, group + groups]
        : [digits === "signed" && amount < 0 ? group + groups : group, NONE];
    weights.forEach((_, digit) => {
      const told = digit < whole ? (left >> digit) & 1 : more;
      sets[digit].push(group === NONE ? NONE : told ? set : unset);
    });
  }
  if (digits === "lifted") sets.push(found.map((total) => (total.amount < 0 ? total.group : NONE)));
  return sets;
}
