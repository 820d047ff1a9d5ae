/** The bytes of reports, and the ids under which they travel: docs/appendix/wire.md. */

import { type Bytes, hmac, joined, little, unhex, utf8 } from "./random.js";
import type { PublicKey } from "./sealing.js";

export const PLAIN = 0;
export const SEALED = 1;
export const SLOTS = 5;
export const VERSION = 2;

const MAGIC = Uint8Array.of(0x89, 0x48, 0x55, 0x53, 0x48, 0x42, 0x0d, 0x0a);

/** What all reports of a metric and a window have in common. */
export interface Mark {
  fingerprint: Bytes;
  window: string;
  place: number;
}

export function markOf(window: { name: string; fingerprint: string }, place: number): Mark {
  const fingerprint = unhex(window.fingerprint);
  if (fingerprint.length !== 16) throw new Error("a fingerprint has 16 bytes");
  return { fingerprint, window: window.name, place };
}

export function header({ fingerprint }: Mark, form: number): Bytes {
  return joined(MAGIC, little(VERSION, 2), little(form, 2), fingerprint);
}

function record(...parts: Bytes[]): Bytes {
  const rest = joined(...parts);
  return joined(little(rest.length, 2), rest);
}

/** A randomised message under an id. */
export function plain({ place }: Mark, id: Bytes, message: bigint): Bytes {
  return record(little(place, 2), id, little(message, 8));
}

/** What a seal holds only with. */
export function info(what: string, mark: Mark, key: PublicKey, ...level: Bytes[]): Bytes {
  const start = [utf8(`hushbeam ${what}`), little(VERSION, 2), little(mark.place, 2)];
  return joined(...start, ...level, key.id, mark.fingerprint);
}

/** The same for the collector's eyes alone. */
export async function sealed(
  mark: Mark,
  id: Bytes,
  message: bigint,
  key: PublicKey,
): Promise<Bytes> {
  const box = await key.seal(little(message, 8), info("report", mark, key));
  return record(little(mark.place, 2), id, key.id, box);
}

/** A report to noisy counters: a word in each slot, sealed with the slot's level. */
export async function slots(
  mark: Mark,
  id: Bytes,
  messages: bigint[],
  levels: number[],
  key: PublicKey,
): Promise<Bytes> {
  const boxes: Bytes[] = [];
  for (const [slot, level] of levels.entries()) {
    const context = info("slot", mark, key, little(level, 2));
    boxes.push(await key.seal(little(messages[slot], 8), context));
  }
  return boxed(mark, id, key, boxes);
}

/** A report of seals. */
export function boxed({ place }: Mark, id: Bytes, key: PublicKey, boxes: Bytes[]): Bytes {
  return record(little(place, 2), id, key.id, ...boxes);
}

/** The id of the one user whose secret it is: by it the shuffler keeps one report of each. */
export async function deviceId(secret: Bytes, mark: Mark): Promise<Bytes> {
  const start = joined(utf8("hushbeam id of a device 1"), mark.fingerprint, little(mark.place, 2));
  const context = joined(start, utf8(mark.window));
  const raw = (await hmac(secret, context)).slice(0, 16);
  const key = await crypto.subtle.importKey("raw", raw, "AES-CTR", false, ["encrypt"]);
  // One block of a counter that is 0, on zeros: AES of the device's digest, which is 0.
  const algorithm = { name: "AES-CTR", counter: new Uint8Array(16), length: 64 };
  return new Uint8Array(await crypto.subtle.encrypt(algorithm, key, new Uint8Array(16)));
}

/** A word, the same for all metrics, by which a device is asked for one of several. */
export async function deviceDraw(secret: Bytes, mark: Mark): Promise<bigint> {
  const context = joined(utf8("hushbeam draw of a metric 1"), mark.fingerprint, utf8(mark.window));
  return new DataView((await hmac(secret, context)).buffer).getBigUint64(0, true);
}
