/**
 * Strings sealed so that equal ones are equal words: a shuffler counts what it cannot read. The
 * ephemeral key of a seal is not drawn: a party of its own evaluates it from the string, the plan
 * and the window, without seeing them. Empty slots are sealed under fresh keys.
 */

import type { Blinded } from "./oblivious.js";
import { below, type Bytes, joined, little, type Source } from "./random.js";
import * as reports from "./report.js";
import { pairOf, type PublicKey } from "./sealing.js";

const NULL = 2 ** 32 - 1; // the first word of an empty slot, which no string has
const CUT = 2 ** 31;
const SEAL = 56; // bytes of a sealed word
const ADDED = 48; // what a seal has before and after its message
const MOST = 1169; // seals of a report

/** What a plan says of strings: `rows_per_user`, and `max_length` in bytes. */
export interface StringOptions {
  slots: number;
  most: number;
}

interface Slot {
  padded: Bytes;
  ephemeral: Bytes | null; // of an empty one
}

/** A device's strings of one metric and window, on their way to the party that evaluates them. */
export class StringRequest {
  private constructor(
    private readonly mark: reports.Mark,
    private readonly id: Bytes,
    private readonly key: PublicKey,
    private readonly slots: Slot[],
    private readonly blinded: Blinded,
  ) {}

  /** What `Device.strings` does. */
  static async drawn(
    mark: reports.Mark,
    id: Bytes,
    given: readonly string[],
    { slots: count, most }: StringOptions,
    key: PublicKey,
    source: Source,
  ): Promise<StringRequest> {
    const room = roomOf(count, most);
    // Sorted as UTF-8 is: the draw below is then the same in all languages.
    const texts: (string | null)[] = [...new Set(given.map(wellFormed))].sort(byPoints);
    while (texts.length < count) texts.push(null);
    // Of more strings than slots some are drawn; and no place says which slots are empty.
    for (let step = 0; step < count; step++) {
      const other = step + (await below(source, texts.length - step));
      [texts[step], texts[other]] = [texts[other], texts[step]];
    }
    const slots: Slot[] = [];
    for (const text of texts.slice(0, count)) {
      const ephemeral = text === null ? await source.bytes(32) : null;
      slots.push({ padded: padded(text, most, room), ephemeral });
    }
    // Asked for all slots, or it would be seen how many strings a device has.
    const bound = reports.info("string", mark, key);
    const { Blinded } = await import("./oblivious.js");
    const inputs = slots.map((slot) => joined(bound, slot.padded));
    return new StringRequest(mark, id, key, slots, await Blinded.drawn(inputs, source));
  }

  /** What goes to the party: 32 bytes for each slot, which say nothing of it. */
  elements(): Bytes {
    return this.blinded.elements();
  }

  /**
   * A file with the device's one report: the same bytes each time. An answer of another key is
   * refused.
   * @param answer - as many evaluated elements, in their order, and one proof for all of them.
   * @param party - the party's key of this window, as `WindowKeys` has it.
   */
  async report(answer: Bytes, party: Bytes): Promise<Bytes> {
    const outputs = await this.blinded.outputs(answer, party);
    const bound = reports.info("string", this.mark, this.key);
    const boxes: Bytes[] = [];
    for (const [k, { padded: text, ephemeral }] of this.slots.entries()) {
      const pair = await pairOf(ephemeral ?? outputs[k].slice(0, 32));
      boxes.push(await this.key.seal(text, bound, undefined, pair));
    }
    const record = reports.boxed(this.mark, this.id, this.key, boxes);
    return joined(reports.header(this.mark, reports.SLOTS), record);
  }
}

/** Bytes of a padded string: all strings of a metric take the room of as many seals. */
function roomOf(slots: number, most: number): number {
  const within = (number: number, last: number) =>
    Number.isInteger(number) && 1 <= number && number <= last;
  if (!within(slots, MOST) || !within(most, 2 ** 16 - 1)) {
    throw new Error(`a report has 1 to ${MOST} strings, of 1 to 65535 bytes: see the plan`);
  }
  const seals = Math.ceil((4 * (1 + Math.ceil(most / 4)) + ADDED) / SEAL);
  if (slots * seals > MOST) {
    throw new Error(`${slots} strings of ${most} bytes are too many for one report`);
  }
  return seals * SEAL - ADDED;
}

/** How long a string is, and whether it was cut; then its bytes, and zeros. */
function padded(text: string | null, most: number, room: number): Bytes {
  const bytes = new Uint8Array(room);
  // Writes whole characters alone.
  const whole = text ?? "";
  const { read, written } = new TextEncoder().encodeInto(whole, bytes.subarray(4, 4 + most));
  bytes.set(little(text === null ? NULL : written + (read < whole.length ? CUT : 0), 4));
  return bytes;
}

/** A text without halves of characters, which UTF-8 has not. */
function wellFormed(text: string): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new TextEncoder().encode(text));
}

/** The order of code points, which is that of UTF-8 and not of JavaScript. */
function byPoints(left: string, right: string): number {
  const [a, b] = [Array.from(left), Array.from(right)];
  const at = a.findIndex((point, i) => point !== b[i]);
  if (at < 0) return a.length - b.length;
  return at < b.length ? (a[at].codePointAt(0) ?? 0) - (b[at].codePointAt(0) ?? 0) : 1;
}
