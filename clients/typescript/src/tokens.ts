/**
 * Anonymous tokens of a window: an issuer gives each device so many, and cannot tell who spends one.
 * A token is a nonce that the device has drawn, and half of what the issuer's key makes of it.
 */

import type { Blinded } from "./oblivious.js";
import { type Bytes, joined, type Source, SystemSource, utf8 } from "./random.js";

const NONCE = 32; // bytes
const NAME = utf8("hushbeam token");

/** A device's request for tokens of one window. */
export class TokenRequest {
  private constructor(
    private readonly nonces: Bytes[],
    private readonly blinded: Blinded,
  ) {}

  /**
   * A request for so many tokens.
   * @param source - an issuer answers the same elements again, and others not: keep the key of a
   *   `Keystream`, and draw from it, until the answer is there. Whoever has that key knows the tokens.
   */
  static async drawn(count: number, source: Source = new SystemSource()): Promise<TokenRequest> {
    const nonces: Bytes[] = [];
    for (let k = 0; k < count; k++) nonces.push(await source.bytes(NONCE));
    const { Blinded } = await import("./oblivious.js");
    const inputs = nonces.map((nonce) => joined(NAME, nonce));
    return new TokenRequest(nonces, await Blinded.drawn(inputs, source));
  }

  /** What goes to the issuer: 32 bytes for each token, which say nothing of it. */
  elements(): Bytes {
    return this.blinded.elements();
  }

  /**
   * The tokens, of 64 bytes. An answer that is not of the key is refused.
   * @param answer - as many evaluated elements, in their order, and one proof for all of them.
   * @param key - the issuer's of this window, as `WindowKeys` has it.
   */
  async tokens(answer: Bytes, key: Bytes): Promise<Bytes[]> {
    const outputs = await this.blinded.outputs(answer, key);
    return this.nonces.map((nonce, k) => joined(nonce, outputs[k].slice(0, NONCE)));
  }
}

/** A token as the header `Hushbeam-Token` has it. */
export function encoded(token: Bytes): string {
  return btoa(String.fromCharCode(...token)).replaceAll("+", "-").replaceAll("/", "_");
}
