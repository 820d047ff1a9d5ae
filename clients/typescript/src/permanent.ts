/** Noise that is drawn once and for all: a keyed function of the user's secret and the value. */

import { perturb } from "./channels.js";
import type { Coins } from "./encoders.js";
import type * as plan from "./plan.js";
import { type Bytes, hmac, joined, Keystream, little, unhex, utf8 } from "./random.js";

const MESSAGE = utf8("hushbeam memoised message 2");
const OFFSET = utf8("hushbeam memoised offset 2");

type Keys = NonNullable<plan.ClientMetric["permanent"]>;

/** The messages of an input: the same today and next year. */
export async function permanentMessages(
  secret: Bytes,
  keys: Keys,
  place: number,
  channel: plan.Perturbing,
  cell: number,
): Promise<bigint[]> {
  const name = joined(MESSAGE, unhex(keys.fingerprint), little(place, 2), unhex(keys.law));
  const key = await hmac(secret, joined(name, little(cell, 8)));
  return perturb(channel, [cell], await Keystream.open(key));
}

/** One offset for all numbers of a user, in the place of a coin for each. */
export function permanentCoins(secret: Bytes, keys: Keys, place: number): Coins {
  return async (size) => {
    if (keys.rounding === null) throw new Error("this metric rounds no numbers");
    const rounding = unhex(keys.rounding);
    const name = joined(OFFSET, unhex(keys.fingerprint), little(place, 2), rounding);
    const stream = await Keystream.open(await hmac(secret, name));
    const offset = new DataView((await stream.bytes(8)).buffer).getUint32(0, true);
    return new Uint32Array(size).fill(offset);
  };
}
