/**
 * A function whose key another party has: who has it learns no input, and who asks learns that the
 * published key was used. RFC 9497, ristretto255-SHA512 in the mode VOPRF, by @cloudflare/voprf-ts,
 * which is bundled into this module; it is loaded where it is needed alone.
 */

import { Evaluation, FinalizeData, Oprf, VOPRFClient } from "@cloudflare/voprf-ts";
import { CryptoNoble } from "@cloudflare/voprf-ts/crypto-noble";
import { ed25519 } from "@noble/curves/ed25519";

import { type Bytes, joined, type Source } from "./random.js";

const SUITE = Oprf.Suite.RISTRETTO255_SHA512;
const GROUP = Oprf.getGroup(SUITE, CryptoNoble);
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
// Bytes.
const ELEMENT = 32;
const PROOF = 64;
const MOST = 2 ** 16 - 2; // inputs, or bytes of one, that the library counts

// A table for many products of the base point takes 0.1 s, and a device needs one or two of them.
// The documented function is not in the library's types of this curve.
(ed25519.utils as unknown as { precompute(window: number): void }).precompute(2);

/** Draws a blind as the client in Rust does: 64 bytes, modulo the order of the group. */
class Blinding extends VOPRFClient {
  constructor(private readonly source: Source) {
    super(SUITE, new Uint8Array(ELEMENT), CryptoNoble);
  }

  override async randomBlinder() {
    for (;;) {
      const drawn = await this.source.bytes(64);
      let number = drawn.reduceRight((whole, byte) => (whole << 8n) | BigInt(byte), 0n) % ORDER;
      if (number === 0n) continue;
      const scalar = new Uint8Array(ELEMENT);
      for (let place = 0; number; place++, number >>= 8n) scalar[place] = Number(number & 255n);
      return GROUP.desScalar(scalar);
    }
  }
}

/** Inputs on their way to who has the key; the blinds stay here. */
export class Blinded {
  private constructor(private readonly data: FinalizeData) {}

  /**
   * @param inputs - 1 .. 65,534, of at most as many bytes each.
   * @param source - of the blinds: with the same one the same elements are made again.
   */
  static async drawn(inputs: Bytes[], source: Source): Promise<Blinded> {
    if (!(1 <= inputs.length && inputs.length <= MOST)) {
      throw new Error(`1 to ${MOST} inputs are blinded at once`);
    }
    if (inputs.some((input) => input.length > MOST)) {
      throw new Error(`an input has at most ${MOST} bytes`);
    }
    const [data] = await new Blinding(source).blind(inputs);
    return new Blinded(data);
  }

  /** What goes to the key's holder: 32 bytes for each input, which say nothing of it. */
  elements(): Bytes {
    return joined(...this.data.evalReq.blinded.map((element) => element.serialize()));
  }

  /**
   * 64 bytes for each input.
   * @param answer - as many evaluated elements, in their order, and one proof for all of them.
   * @param key - the published key, of 32 bytes.
   */
  async outputs(answer: Bytes, key: Bytes): Promise<Bytes[]> {
    try {
      const size = answer.length - PROOF;
      const count = this.data.inputs.length;
      if (size !== count * ELEMENT || answer.length < PROOF) throw new Error("of another size");
      const lead = Uint8Array.of(count >> 8, count & 255);
      const [elements, proof] = [answer.slice(0, size), answer.slice(size)];
      const framed = joined(lead, elements, Uint8Array.of(Oprf.Mode.VOPRF), proof);
      const evaluation = Evaluation.deserialize(SUITE, framed, CryptoNoble);
      // The RFC's deserialisation refuses the identity, and the library's takes it.
      if ([GROUP.desElt(key), ...evaluation.evaluated].some((element) => element.isIdentity())) {
        throw new Error("the identity");
      }
      const made = await new VOPRFClient(SUITE, key, CryptoNoble).finalize(this.data, evaluation);
      return made.map((output) => joined(output));
    } catch {
      throw new Error(
        "the answer is not of the published key: use none of it; somebody else's key would tell " +
          "this device from others",
      );
    }
  }
}
