/** What each mechanism makes of its inputs: docs/appendix/wire.md has the laws, and why they are so. */

import { Field, Forms } from "./fields.js";
import type * as plan from "./plan.js";
import { dice16, integers, type Source, words } from "./random.js";

type Messages = Promise<bigint[]>;
type Places = Promise<number[]>;
type Drawn<Channel> = (channel: Channel, cells: number[], source: Source) => Messages;

const DRAWN: { [Channel in plan.Perturbing as Channel["channel"]]: Drawn<Channel> } = {
  "k-ary response": inBlocks(kAry),
  "linear hash": inBlocks(linearHash),
  "projective geometry": inBlocks(projective),
  "sliding window": inBlocks(slidingWindow),
  "with unusable": withUnusable,
  dummies: amongDummies,
};

/** Whether this client has a mechanism of that name: a newer one may have more. */
export function known(channel: string): boolean {
  return channel === "counters" || Object.hasOwn(DRAWN, channel);
}

/** How many inputs a mechanism takes. */
export function inputs(channel: plan.Perturbing): number {
  if (channel.channel === "sliding window") return channel.cells + 1;
  if (channel.channel === "with unusable") return channel.number.cells + 2;
  return channel.inputs;
}

/** The messages of some inputs; of each one, but for dummies, where they come user by user. */
export async function perturb(channel: plan.Perturbing, cells: number[], source: Source): Messages {
  const most = inputs(channel);
  if (!cells.every((cell) => Number.isInteger(cell) && 0 <= cell && cell < most)) {
    throw new Error(`an input lies outside 0 .. ${most - 1}`); // never which
  }
  return (DRAWN[channel.channel] as Drawn<plan.Perturbing>)(channel, cells, source);
}

/** So many at a time as the Python client draws for. */
function inBlocks<Channel>(drawn: Drawn<Channel>): Drawn<Channel> {
  const size = 1 << 15;
  return async (channel, cells, source) => {
    const messages: bigint[] = [];
    for (let start = 0; start < cells.length; start += size) {
      messages.push(...(await drawn(channel, cells.slice(start, start + size), source)));
    }
    return messages;
  };
}

/** What is added to the truth: a word falls into one of q - 1 slots of `miss`, or beyond them. */
function shiftOf(word: bigint, miss: bigint, order: number): number {
  const slot = word / miss;
  return slot < BigInt(order - 1) ? order - 1 - Number(slot) : 0;
}

async function kAry({ order, miss }: plan.KAryResponse, cells: number[], source: Source): Messages {
  const drawn = await words(source, cells.length);
  const slot = BigInt(miss);
  return cells.map((cell, i) => BigInt((cell + shiftOf(drawn[i], slot, order)) % order));
}

async function linearHash(
  { order, polynomial, digits, miss }: plan.LinearHash,
  cells: number[],
  source: Source,
): Messages {
  const forms = new Forms(new Field(order, polynomial), digits);
  const drawn = await words(source, cells.length);
  const points = await integers(source, BigInt(forms.points), cells.length);
  const slot = BigInt(miss);
  return cells.map((cell, i) => {
    const point = Number(points[i]);
    const truth = forms.evaluate(point, cell);
    return BigInt(point * order + forms.field.add(truth, shiftOf(drawn[i], slot, order)));
  });
}

async function projective(
  channel: plan.ProjectiveGeometry,
  cells: number[],
  source: Source,
): Messages {
  const space = new Space(channel);
  // Not all 2^64 words are in use, so they are drawn below the bound, without a bias.
  const drawn = await integers(source, space.words(channel.digits), cells.length);
  return cells.map((cell, i) => space.report(drawn[i], cell, channel.digits));
}

/** The projective space, and those of fewer digits in it. */
class Space {
  private readonly field: Field;
  private readonly on: bigint;
  private readonly off: bigint;
  private readonly order: bigint;

  constructor({ order, polynomial, on, off }: plan.ProjectiveGeometry) {
    this.field = new Field(order, polynomial);
    [this.on, this.off, this.order] = [BigInt(on), BigInt(off), BigInt(order)];
  }

  private points(digits: number): bigint {
    return (this.order ** BigInt(digits) - 1n) / (this.order - 1n);
  }

  /** How many words stand for the points of so many digits. */
  words(digits: number): bigint {
    const near = this.points(digits - 1);
    return near * this.on + (this.points(digits) - near) * this.off;
  }

  /** The point that a word stands for. */
  report(word: bigint, value: number, digits: number): bigint {
    const forms = new Forms(this.field, digits - 1);
    if (value < forms.vectors) return this.test(word, value, forms);
    // A value (v, 0): a point one digit lower with any symbol, or the last one.
    const [rest, symbol] = [word / this.order, word % this.order];
    if (rest >= this.words(digits - 1)) return this.points(digits) - 1n;
    return this.report(rest, value - forms.vectors, digits - 1) * this.order + symbol;
  }

  /** The same for a value (c, 1), which each form tests. */
  private test(word: bigint, value: number, forms: Forms): bigint {
    const share = this.on + (this.order - 1n) * this.off;
    const point = word / share;
    const shift = shiftOf(word % share, this.off, Number(this.order));
    const symbol = this.field.add(forms.evaluate(Number(point), value), shift);
    const code = point * this.order + BigInt(symbol);
    const last = BigInt(forms.points) * this.order; // the point (0, 1), which has no symbol
    return code < last ? code : last;
  }
}

async function slidingWindow(
  channel: plan.SlidingWindow,
  cells: number[],
  source: Source,
): Messages {
  const { steps, width } = channel;
  const starts = await positions(channel, cells, source);
  const slots = await slotsOf(channel, cells.length, source);
  return slots.map((slot, i) =>
    // The first `steps` slots are the codes outside the window, the others those inside.
    BigInt(slot < steps ? slot + (slot >= starts[i] ? width : 0) : starts[i] + slot - steps),
  );
}

/** Where windows start: a 16-bit coin between two positions, continued where it ties. */
async function positions(
  { lower, chance }: plan.SlidingWindow,
  cells: number[],
  source: Source,
): Places {
  const dice = await dice16(source, cells.length);
  const chances = cells.map((cell) => BigInt(chance[cell]));
  const tied = cells.flatMap((_, i) => (BigInt(dice[i]) === chances[i] >> 48n ? [i] : []));
  const more = new Map(zip(tied, await words(source, tied.length)));
  return cells.map((cell, i) => {
    const further = more.get(i);
    const after =
      further === undefined
        ? BigInt(dice[i]) < chances[i] >> 48n
        : further < BigInt.asUintN(64, chances[i] << 16n);
    return lower[cell] + Number(after);
  });
}

/** Slots of their exact weights: 16 bits decide most, and the bits after them the others. */
async function slotsOf(
  { steps, outside, inside }: plan.SlidingWindow,
  size: number,
  source: Source,
): Places {
  const [far, near, count] = [BigInt(outside), BigInt(inside), BigInt(steps)];
  const slot = (word: bigint): number =>
    Number(word < count * far ? word / far : count + (word - count * far) / near);
  const dice = Array.from(await dice16(source, size), (die) => BigInt(die) << 48n);
  const slots = dice.map(slot);
  const open = slots.flatMap((least, i) =>
    slot(dice[i] | ((1n << 48n) - 1n)) === least ? [] : [i],
  );
  for (const [i, word] of zip(open, await words(source, open.length))) {
    slots[i] = slot(dice[i] | (word >> 16n));
  }
  return slots;
}

async function withUnusable(channel: plan.WithUnusable, cells: number[], source: Source): Messages {
  const { number, shift } = channel;
  const none = number.cells + 1;
  // What is drawn for a number is drawn for everybody, so that nothing shows who has none.
  const given = cells.map((cell) => (cell === none ? 0 : cell));
  const messages = await perturb(number, given, source);
  const coins = await words(source, cells.length);
  const instead = await words(source, cells.length);
  const chance = BigInt(channel.chance);
  return cells.map((cell, i) => {
    if (cell !== none) return coins[i] < chance ? BigInt(number.steps + number.width) : messages[i];
    const column = Number(instead[i] >> BigInt(shift));
    const height = BigInt.asUintN(shift, instead[i]);
    return BigInt(height < BigInt(channel.threshold[column]) ? column : channel.alias[column]);
  });
}

async function amongDummies(
  { inputs: codes, first, ends }: plan.Dummies,
  cells: number[],
  source: Source,
): Messages {
  const numbers = await fromTable(first, ends.map(BigInt), cells.length, source);
  const total = numbers.reduce((sum, number) => sum + number, 0);
  const drawn = await integers(source, BigInt(codes), total);
  let at = 0;
  return cells.flatMap((cell, user) => {
    const own = [BigInt(cell), ...drawn.slice(at, (at += numbers[user]))];
    // In ascending order: any other might tell which of them is the true one.
    return own.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  });
}

/** Integers of a law in units of 2^-128: a word decides nearly every draw. */
async function fromTable(first: number, ends: bigint[], size: number, source: Source): Places {
  const leading = [...ends.map((end) => end >> 64n), (1n << 64n) - 1n];
  const drawn = Array.from(await words(source, size));
  const passed = drawn.map((word) => leading.filter((end) => end <= word).length);
  const open = drawn.flatMap((word, i) =>
    passed[i] > 0 && leading[passed[i] - 1] === word ? [i] : [],
  );
  for (const [i, low] of zip(open, await words(source, open.length))) {
    const whole = (drawn[i] << 64n) | low;
    passed[i] = ends.filter((end) => end <= whole).length;
  }
  return passed.map((number) => first + number);
}

function zip(places: number[], drawn: BigUint64Array): [number, bigint][] {
  return places.map((place, i) => [place, drawn[i]]);
}
