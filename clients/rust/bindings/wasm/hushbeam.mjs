/** The module of WebAssembly behind functions of JavaScript: see `src/c.rs`. */

const [MADE, NOTHING] = [0, 1];

/** @param bytes - of `hushbeam_client.wasm`. */
export async function open(bytes) {
  const random = (at, length) => {
    // A browser's generator gives 65,536 bytes at a time; the module asks for 32.
    crypto.getRandomValues(new Uint8Array(memory.buffer, at, length));
  };
  const { instance } = await WebAssembly.instantiate(bytes, { hushbeam: { random } });
  const { memory, ...module } = instance.exports;

  /** Calls a function with byte strings or texts, and an answer's place at the end. */
  function call(name, first, ...given) {
    const texts = given.map((each) => (typeof each === "string" ? new TextEncoder().encode(each) : each));
    const places = texts.map((each) => [module.hushbeam_allocate(each.length), each.length]);
    texts.forEach((each, i) => new Uint8Array(memory.buffer, ...places[i]).set(each));
    const answer = module.hushbeam_allocate(12);
    try {
      const object = module[name](...first, ...places.flat(), answer);
      const [status, data, length] = new Uint32Array(memory.buffer, answer, 3);
      const bytes = new Uint8Array(memory.buffer, data, length).slice();
      module.hushbeam_free(data, length);
      if (status !== MADE && status !== NOTHING) throw new Error(new TextDecoder().decode(bytes));
      return { object, bytes: status === MADE ? bytes : null };
    } finally {
      for (const place of [...places, [answer, 12]]) module.hushbeam_free(...place);
    }
  }

  return {
    /** One user's reports; `values` as text of JSON, where the plan has hashes alone. */
    device(plan, secret, values = "") {
      const { object } = call("hushbeam_device_new", [], plan, secret, values);
      return {
        /** Bytes, or null; `rows` as text of JSON, `key` as PEM, "" for plain reports. */
        report: (metric, rows, key = "") =>
          call("hushbeam_report", [object], metric, rows, key).bytes,
        /** A request for the seals of strings: `[slots, most]` are the plan's. */
        strings(metric, texts, [slots, most], key) {
          const words = [metric, JSON.stringify(texts), key];
          const made = call("hushbeam_strings_new", [object, slots, most], ...words);
          return {
            elements: made.bytes,
            report: (answer, party) => call("hushbeam_strings_report", [made.object], answer, party).bytes,
            free: () => module.hushbeam_strings_free(made.object),
          };
        },
        free: () => module.hushbeam_device_free(object),
      };
    },
    /**
     * A request for tokens of one window, made again by the same key of 32 random bytes.
     * `fingerprint` is the window's; `role`, "issuer" or, for tokens of strings, "queries".
     */
    request(count, secret, fingerprint, role = "issuer") {
      const { object, bytes } = call("hushbeam_request_new", [count], secret, fingerprint, role);
      return {
        elements: bytes,
        tokens: (issued, key) => call("hushbeam_tokens", [object], issued, key).bytes,
        free: () => module.hushbeam_request_free(object),
      };
    },
  };
}
