/** Randomness, and integers drawn from it exactly as the Python client draws them. */

export type Bytes = Uint8Array<ArrayBuffer>;

/** Where random bytes come from, one after another. */
export interface Source {
  bytes(size: number): Promise<Bytes>;
}

const MOST = 1 << 16; // bytes that a browser's generator gives at a time
const CHUNK = 1 << 12;
const WORD = 1n << 64n;

// Words are read as the machine has them, and all clients must read them alike.
if (new Uint8Array(new Uint16Array([1]).buffer)[0] !== 1) {
  throw new Error("this client reads keystreams on little-endian machines only");
}

/** The system's generator: for all noise that is drawn anew. */
export class SystemSource implements Source {
  async bytes(size: number): Promise<Bytes> {
    const drawn = new Uint8Array(size);
    for (let start = 0; start < size; start += MOST) {
      crypto.getRandomValues(drawn.subarray(start, start + MOST));
    }
    return drawn;
  }
}

/** AES-256 in counter mode from block 0: for permanent noise, whose key is secret, and for tests. */
export class Keystream implements Source {
  private block = 0;
  private rest: Bytes = new Uint8Array(0);

  private constructor(private readonly key: CryptoKey) {}

  static async open(key: Bytes): Promise<Keystream> {
    if (key.length !== 32) throw new Error(`a key has 32 bytes, not ${key.length}`);
    return new Keystream(await crypto.subtle.importKey("raw", key, "AES-CTR", false, ["encrypt"]));
  }

  async bytes(size: number): Promise<Bytes> {
    if (this.rest.length < size) {
      const more = Math.ceil((size - this.rest.length) / CHUNK) * CHUNK;
      const counter = new Uint8Array(16);
      new DataView(counter.buffer).setBigUint64(8, BigInt(this.block));
      const drawn = await crypto.subtle.encrypt(
        { name: "AES-CTR", counter, length: 64 },
        this.key,
        new Uint8Array(more), // encrypting zeros yields the bare keystream
      );
      this.block += more / 16;
      this.rest = joined(this.rest, new Uint8Array(drawn));
    }
    const taken = this.rest.slice(0, size);
    this.rest = this.rest.slice(size);
    return taken;
  }
}

/** Uniform 64-bit words. */
export async function words(source: Source, size: number): Promise<BigUint64Array> {
  return new BigUint64Array((await source.bytes(8 * size)).buffer);
}

/** Uniform integers of 16 bits; whole words are drawn. */
export async function dice16(source: Source, size: number): Promise<Uint16Array> {
  return new Uint16Array((await source.bytes(8 * Math.ceil(size / 4))).buffer, 0, size);
}

/** Uniform integers of 32 bits; whole words are drawn. */
export async function dice32(source: Source, size: number): Promise<Uint32Array> {
  return new Uint32Array((await source.bytes(8 * Math.ceil(size / 2))).buffer, 0, size);
}

/** Exactly uniform integers below a bound of 1 .. 2^64, by rejection: never by a remainder. */
export async function integers(source: Source, bound: bigint, size: number): Promise<bigint[]> {
  if (!(1n <= bound && bound <= WORD)) throw new Error("the bound must lie in 1 .. 2^64");
  const narrow = bound <= 1n << 32n;
  const step = (narrow ? 1n << 32n : WORD) / bound;
  const draw = async (count: number): Promise<bigint[]> => {
    if (!narrow) return Array.from(await words(source, count), (word) => word / step);
    const raw = new Uint32Array((await source.bytes(4 * count)).buffer);
    return Array.from(raw, (word) => BigInt(word) / step);
  };
  const drawn = await draw(size);
  for (;;) {
    const rejected = [...drawn.keys()].filter((place) => drawn[place] >= bound);
    if (!rejected.length) return drawn;
    const again = await draw(rejected.length);
    rejected.forEach((place, index) => (drawn[place] = again[index]));
  }
}

/** An exactly uniform integer below a bound of 1 .. 2^32 (Lemire, ACM TOMACS 2019, Alg. 5). */
export async function below(source: Source, bound: number): Promise<number> {
  const results = BigInt(bound);
  for (;;) {
    const [word] = new Uint32Array((await source.bytes(4)).buffer);
    const product = BigInt(word) * results;
    if ((product & 0xffffffffn) >= (1n << 32n) % results) return Number(product >> 32n);
  }
}

/** Byte strings, one after another. */
export function joined(...parts: Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** HMAC-SHA256. */
export async function hmac(key: Bytes, message: Bytes): Promise<Bytes> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, message));
}

/** The first bytes of SHA-256. */
export async function sha256(message: Bytes, size = 32): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", message)).slice(0, size);
}

export function utf8(text: string): Bytes {
  return new Uint8Array(new TextEncoder().encode(text));
}

/** An integer in so many bytes, the least first. */
export function little(value: number | bigint, size: number): Bytes {
  const bytes = new Uint8Array(size);
  let rest = BigInt(value);
  for (let place = 0; place < size; place++, rest >>= 8n) bytes[place] = Number(rest & 255n);
  return bytes;
}

export function unhex(text: string): Bytes {
  if (!/^([0-9a-f]{2})*$/.test(text)) throw new Error("these are no hexadecimal digits");
  return new Uint8Array((text.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
