/** The signed list of windows' keys: what answers are checked by, the same for all devices. */

import type * as plan from "./plan.js";
import { type Bytes, unhex, utf8 } from "./random.js";
import { publicKeyOf } from "./sealing.js";
import type { Store } from "./store.js";

/** What a key is for: tokens of reports, tokens of queries, strings that are sealed alike. */
export type Role = "issuer" | "queries" | "strings";

// What precedes the 32 bytes of an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410).
const SPKI = Uint8Array.of(0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0);
const PURPOSE = "hushbeam keys\n";
const FORMAT = 1;
const SEEN = "seen-keys";

export class WindowKeys {
  private constructor(private readonly keys: Map<string, string>) {}

  /**
   * A list that somebody has published.
   * @param text - the file, keys.json.
   * @param signer - a PEM file: the Ed25519 public key of who publishes it.
   * @param store - remembers which keys this device has seen: a window that has another key now is
   *   refused, for a key of one's own tells a device from others.
   */
  static async of(text: string, signer: string, store: Store): Promise<WindowKeys> {
    const raw = publicKeyOf(signer, SPKI, "Ed25519");
    const key = await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
    const { signature, ...content } = parsed(text);
    const named = /^[0-9a-f]{128}$/.test(String(signature)) ? unhex(String(signature)) : null;
    const signed = utf8(PURPOSE + canonical(content));
    if (!named || !(await crypto.subtle.verify({ name: "Ed25519" }, key, named, signed))) {
      throw new Error("the list of keys is not signed by its signer: use none of its keys");
    }
    if (content.format !== FORMAT || !Array.isArray(content.keys)) {
      throw new Error(`the list of keys is not of format ${FORMAT}: update`);
    }
    const seen = parsed((await store.read(SEEN)) ?? "{}") as Record<string, string>;
    const keys = new Map(Object.entries(seen));
    for (const each of content.keys as Record<string, unknown>[]) {
      const name = `${each.fingerprint} ${each.role}`;
      const known = keys.get(name);
      if (known !== undefined && known !== each.public) {
        throw new Error(
          `the list has another key of window ${each.window} than this device has seen: use none ` +
            "of its keys, for a key of one's own tells a device from others",
        );
      }
      keys.set(name, String(each.public));
    }
    if (new Set(keys.values()).size < keys.size) {
      throw new Error(
        "the list has one key for two windows or roles: use none of its keys, for a token of one " +
          "would be good in the other",
      );
    }
    // Another tab that writes meanwhile may undo this; the next look at the list does it again.
    if (keys.size > Object.keys(seen).length) {
      await store.write(SEEN, JSON.stringify(Object.fromEntries(keys)));
    }
    return new WindowKeys(keys);
  }

  /** A window's key, of 32 bytes. */
  key({ window }: Pick<plan.Plan, "window">, role: Role): Bytes {
    const found = this.keys.get(`${window?.fingerprint} ${role}`);
    if (found === undefined || !/^[0-9a-f]{64}$/.test(found)) {
      throw new Error(`no ${role} key of this window: fetch the newest list of keys`);
    }
    return unhex(found);
  }
}

function parsed(text: string): Record<string, unknown> {
  try {
    const content: unknown = JSON.parse(text);
    if (typeof content === "object" && content !== null) return { ...content };
  } catch {
    // said below
  }
  throw new Error("the list of keys is no JSON: fetch it again");
}

/** The canonical form of JSON (RFC 8785), which is JavaScript's with sorted names. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  const members = value as Record<string, unknown>;
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(members[name])}`).join()}}`;
}
