/** Seals to the collector's key: HPKE (RFC 9180) in base mode, by the platform's own ciphers. */

import { type Bytes, hmac, joined, little, sha256, utf8 } from "./random.js";

const VERSION = utf8("HPKE-v1");
const KEM = joined(utf8("KEM"), Uint8Array.of(0, 0x20)); // DHKEM(X25519, HKDF-SHA256)
const SUITE = joined(utf8("HPKE"), Uint8Array.of(0, 0x20, 0, 1, 0, 1)); // HKDF-SHA256, AES-128-GCM
const NOTHING: Bytes = new Uint8Array(0);
// What precedes the 32 bytes of an X25519 key in its SubjectPublicKeyInfo (RFC 8410).
const SPKI = Uint8Array.of(0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 3, 0x21, 0);
// And those of a private key in its PrivateKeyInfo.
const PKCS8 = Uint8Array.of(0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20);

/** The collector's public key. */
export class PublicKey {
  private constructor(
    readonly id: Bytes,
    private readonly raw: Bytes,
    private readonly key: CryptoKey,
  ) {}

  /** @param pem - what `hushbeam parties keys new` wrote as `<id>.public.pem`. */
  static async of(pem: string): Promise<PublicKey> {
    const raw = publicKeyOf(pem, SPKI, "X25519");
    const key = await crypto.subtle.importKey("raw", raw, { name: "X25519" }, false, []);
    return new PublicKey(await sha256(raw, 8), raw, key);
  }

  /**
   * A message that only the holder of the private key can read, and only with the same `info`.
   * @param ephemeral - a pair of keys, of strings that are sealed alike; else one is drawn.
   */
  async seal(
    message: Bytes,
    info: Bytes,
    aad: Bytes = NOTHING,
    ephemeral?: CryptoKeyPair,
  ): Promise<Bytes> {
    const pair =
      ephemeral ??
      ((await crypto.subtle.generateKey({ name: "X25519" }, true, ["deriveBits"])) as CryptoKeyPair);
    const enc = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
    const exchanged = new Uint8Array(
      await crypto.subtle.deriveBits({ name: "X25519", public: this.key }, pair.privateKey, 256),
    );
    const prk = await extract(KEM, NOTHING, "eae_prk", exchanged);
    const shared = await expand(KEM, prk, "shared_secret", joined(enc, this.raw), 32);
    const context = joined(
      Uint8Array.of(0), // base mode
      await extract(SUITE, NOTHING, "psk_id_hash", NOTHING),
      await extract(SUITE, NOTHING, "info_hash", info),
    );
    const secret = await extract(SUITE, shared, "secret", NOTHING);
    const raw = await expand(SUITE, secret, "key", context, 16);
    const iv = await expand(SUITE, secret, "base_nonce", context, 12);
    const key = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["encrypt"]);
    const algorithm = { name: "AES-GCM", iv, additionalData: aad };
    return joined(enc, new Uint8Array(await crypto.subtle.encrypt(algorithm, key, message)));
  }
}

/** The 32 bytes of a public key in a PEM file. */
export function publicKeyOf(pem: string, spki: Uint8Array, kind: string): Bytes {
  const text = /-----BEGIN PUBLIC KEY-----([\sA-Za-z0-9+/=]+)-----END PUBLIC KEY-----/.exec(pem);
  const bytes = Uint8Array.from(atob((text?.[1] ?? "").replace(/\s/g, "")), (c) => c.charCodeAt(0));
  if (bytes.length !== 44 || !spki.every((byte, i) => byte === bytes[i])) {
    throw new Error(`this is no ${kind} public key (-----BEGIN PUBLIC KEY-----)`);
  }
  return bytes.slice(12);
}

/** The pair of a private key of 32 bytes. */
export async function pairOf(raw: Bytes): Promise<CryptoKeyPair> {
  const algorithm = { name: "X25519" };
  const pkcs8 = joined(PKCS8, raw);
  const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, algorithm, true, ["deriveBits"]);
  const { kty, crv, x } = await crypto.subtle.exportKey("jwk", privateKey);
  const publicKey = await crypto.subtle.importKey("jwk", { kty, crv, x }, algorithm, true, []);
  return { privateKey, publicKey };
}

function extract(suite: Bytes, salt: Bytes, label: string, key: Bytes): Promise<Bytes> {
  // No salt is one of zeros, to HMAC.
  const salted = salt.length ? salt : new Uint8Array(32);
  return hmac(salted, joined(VERSION, suite, utf8(label), key));
}

async function expand(
  suite: Bytes,
  key: Bytes,
  label: string,
  context: Bytes,
  size: number,
): Promise<Bytes> {
  const length = little(size, 2).reverse();
  const text = joined(length, VERSION, suite, utf8(label), context, Uint8Array.of(1));
  return (await hmac(key, text)).slice(0, size); // at most 32 bytes are ever asked for
}
