/** Arms of experiments, drawn by a hash of who a user is: docs/experiments.md. */

import { joined, sha256, utf8 } from "./random.js";

const DRAWS = 2 ** 64;

/**
 * The arm of a user, as `hushbeam experiment --salt` draws it.
 *
 * @param salt - public, and of one experiment alone.
 * @param shares - of the arms in their order, as in [9, 1]; they need not add up to 1.
 * @param id - the user's; a whole number counts as its decimals.
 * @returns the place of the arm, from 0.
 */
export async function armOf(
  salt: string,
  shares: readonly number[],
  id: string | number | bigint,
): Promise<number> {
  const whole = shares.reduce((sum, share) => sum + share, 0);
  if (!(salt && shares.every((share) => share > 0) && Number.isFinite(whole) && whole > 0)) {
    throw new Error("an experiment has a salt, and arms with shares above 0");
  }
  if (typeof id === "number" && !Number.isSafeInteger(id)) {
    throw new Error("an id is a text or a whole number; beyond 2^53 a bigint");
  }
  const bytes = await sha256(joined(utf8(salt), Uint8Array.of(0), utf8(String(id))), 8);
  const draw = bytes.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);
  let end = 0;
  const ends = shares.slice(0, -1).map((share) => BigInt(Math.round(DRAWS * (end += share / whole))));
  return ends.filter((one) => draw >= one).length;
}
