/** The vectors of the Python client, as checks that run in Node and in a browser alike. */

import { rowChecks } from "./rows.mjs";

const none = undefined;

/** Hex or decimals, so that a difference can be read. */
function same(name, made, wanted) {
  const [left, right] = [made, wanted].map((value) =>
    JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part)),
  );
  if (left !== right) throw new Error(`${name}: ${left.slice(0, 200)} is not ${right.slice(0, 200)}`);
}

async function refused(name, made) {
  try {
    await made();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return error.message;
  }
  throw new Error(`${name}: was not refused`);
}

function open(client, key) {
  return client.Keystream.open(client.unhex(key));
}

/** [name, check] of all vectors; `read` takes the name of a file to what it holds. */
export async function checks(client, internals, read) {
  const drawn = await read("channels.json");
  const list = [];
  for (const { bound, key, drawn: wanted } of drawn.integers) {
    list.push([
      `integers below ${bound}`,
      async () =>
        same(
          bound,
          await client.integers(await open(client, key), BigInt(bound), wanted.length),
          wanted,
        ),
    ]);
  }
  for (const { cells, key, values, drawn: wanted } of drawn.grids) {
    list.push([
      `grid of ${cells}`,
      async () => {
        const coins = client.freshCoins(await open(client, key));
        same(`grid of ${cells}`, await client.toGrid(values, cells, coins), wanted);
      },
    ]);
  }
  for (const { secret, keys, place, cells, values, drawn: wanted } of drawn.offsets) {
    list.push([
      `permanent offset ${place}`,
      async () => {
        const coins = client.permanentCoins(client.unhex(secret), keys, place);
        same(`offset ${place}`, await client.toGrid(values, cells, coins), wanted);
      },
    ]);
  }
  for (const { secret, fingerprint, place, window, id, draw } of drawn.devices) {
    const mark = { fingerprint: client.unhex(fingerprint), place, window };
    list.push([
      `device in ${window}`,
      async () => {
        same("id", client.hex(await client.deviceId(client.unhex(secret), mark)), id);
        same("draw", String(await client.deviceDraw(client.unhex(secret), mark)), draw);
      },
    ]);
  }
  for (const { salt, shares, ids, arms } of drawn.arms) {
    list.push([
      `arms of ${salt}`,
      async () => {
        const made = await Promise.all(ids.map((id) => client.armOf(salt, shares, id)));
        same(salt, made, arms);
        const bad = [["", shares, 1], [salt, [1, 0], 1], [salt, shares, 0.5]];
        for (const one of bad) await refused("arms", () => client.armOf(...one));
      },
    ]);
  }
  list.push(...edges(client));
  for (const { name, channel, key, cells, messages } of drawn.channels) {
    list.push([
      `channel: ${name}`,
      async () => same(name, await client.perturb(channel, cells, await open(client, key)), messages),
    ]);
    list.push([
      `channel: ${name}: an input outside`,
      async () => {
        for (const cell of [-1, client.inputs(channel), 0.5, NaN]) {
          const source = await open(client, key);
          const said = await refused(name, () => client.perturb(channel, [0, cell], source));
          if (said.includes(String(cell)) && cell !== -1) throw new Error("the value is told");
        }
      },
    ]);
  }
  list.push(...(await seals(client, await read("seals.json"))));
  const { Blinded } = internals;
  list.push(...oblivious(client, Blinded, await read("oblivious.json"), await read("seals.json")));
  for (const name of ["fresh", "permanent", "counters"]) {
    list.push(...reports(client, internals, name, await read(`reports-${name}.json`)));
  }
  const [fresh, seal] = [await read("reports-fresh.json"), await read("seals.json")];
  list.push(...refusals(client, fresh, seal));
  const { plan: counters } = await read("reports-counters.json");
  list.push(...rowChecks(client, fresh.plan, counters, seal.key));
  return list;
}

/** Draws that no keystream is likely to make. */
function edges(client) {
  const given = (...numbers) => {
    const bytes = new Uint8Array(new Uint32Array(numbers).buffer);
    let at = 0;
    return { bytes: async (size) => bytes.slice(at, (at += size)) };
  };
  const most = 2 ** 32 - 1;
  return [
    // 2^32 - 4 is the first number that makes 6 of 6 * floor(2^32 / 6).
    [
      "a draw just beyond the last is drawn again",
      async () => same("6", await client.integers(given(most - 3, most - 4), 6n, 1), [5n]),
    ],
    [
      "halves are rounded to even",
      async () => {
        const coins = async () => Uint32Array.of(most, most - 1);
        same("halves", await client.toGrid([-1 + 2 ** -32, -1 + 3 * 2 ** -32], 1, coins), [0, 1]);
      },
    ],
  ];
}

async function seals(client, { key, key_id, boxes }) {
  const { unhex, hex } = client;
  const { subtle } = globalThis.crypto;
  return boxes.map((box, i) => [
    `seal ${i}`,
    async () => {
      const public_ = await client.PublicKey.of(key);
      same("key id", hex(public_.id), key_id);
      const pair = {
        privateKey: await subtle.importKey("pkcs8", unhex(box.ephemeral), { name: "X25519" }, true, [
          "deriveBits",
        ]),
        publicKey: await subtle.importKey("raw", unhex(box.public), { name: "X25519" }, true, []),
      };
      const [message, info, aad] = [box.message, box.info, box.aad].map(unhex);
      same(`seal ${i}`, hex(await public_.seal(message, info, aad, pair)), box.sealed);
      const again = [await public_.seal(message, info), await public_.seal(message, info)];
      if (hex(again[0]) === hex(again[1])) throw new Error("two seals are alike");
    },
  ]);
}

/** Tokens, and strings under a key that another party has. */
function oblivious(client, blinded, told, { key: pem }) {
  const { hex, unhex } = client;
  const other = hex(unhex(told.functions[0].public));
  const held = async (name, made, answer, public_) => {
    await made(unhex(answer), unhex(public_));
    const alter = (at) => {
      const bytes = unhex(answer);
      bytes[at] ^= 1;
      return bytes;
    };
    const identity = new Uint8Array(32);
    const bad = [
      [unhex(answer), unhex(other)], [unhex(answer), identity], [unhex(answer), identity.slice(1)],
      [alter(1), unhex(public_)], [alter(answer.length / 2 - 1), unhex(public_)],
      [unhex(answer.slice(0, -2)), unhex(public_)], [unhex(answer.slice(0, 126)), unhex(public_)],
      [unhex("00".repeat(answer.length / 2)), identity],
    ];
    for (const each of bad) {
      const said = await refused(name, () => made(...each));
      if (!said.startsWith("the answer is not of the published key")) throw new Error(said);
    }
  };
  const list = told.functions.map(({ key, inputs, outputs, public: public_, elements, answer }) => [
    "RFC 9497's vectors",
    async () => {
      const made = await blinded.drawn(inputs.map(unhex), await open(client, key));
      same("elements", hex(made.elements()), elements);
      same("outputs", (await made.outputs(unhex(answer), unhex(public_))).map(hex), outputs);
      await refused("no input", () => blinded.drawn([], new client.SystemSource()));
      const long = [new Uint8Array(2 ** 16)];
      await refused("a long input", () => blinded.drawn(long, new client.SystemSource()));
    },
  ]);
  for (const { key, count, elements, answer, public: public_, tokens } of told.tokens) {
    list.push([
      `${count} tokens`,
      async () => {
        const made = await client.TokenRequest.drawn(count, await open(client, key));
        same("elements", hex(made.elements()), elements);
        same("tokens", (await made.tokens(unhex(answer), unhex(public_))).map(hex), tokens);
        const again = await client.TokenRequest.drawn(count, await open(client, key));
        same("again", (await again.tokens(unhex(answer), unhex(public_))).map(hex), tokens);
        await held("tokens", (...each) => made.tokens(...each), answer, public_);
        const fresh = await client.TokenRequest.drawn(count);
        if (hex(fresh.elements()) === elements) throw new Error("two requests are alike");
      },
    ]);
  }
  for (const { key, metric, texts, slots, most, elements, answer, public: public_, report } of told.strings) {
    list.push([
      `strings: ${JSON.stringify(texts)}`,
      async () => {
        const device = new client.Device(told.plan, {
          secret: unhex(told.secret),
          open: () => open(client, key),
        });
        const public_key = await client.PublicKey.of(pem);
        const made = await device.strings(metric, texts, { slots, most }, public_key);
        same("elements", hex(made.elements()), elements);
        same("report", hex(await made.report(unhex(answer), unhex(public_))), report);
        await held("strings", (...each) => made.report(...each), answer, public_);
        for (const bad of [{ slots: 0, most: 9 }, { slots: 1169, most: 9 }, { slots: 1, most: 0.5 }]) {
          await refused("size", () => device.strings(metric, texts, bad, public_key));
        }
        await refused("metric", () => device.strings("none", texts, { slots, most }, public_key));
      },
    ]);
  }
  list.push([
    "the signed list of keys",
    async () => {
      const texts = new Map();
      const store = {
        read: async (name) => texts.get(name) ?? null,
        write: async (name, text) => void texts.set(name, text),
      };
      const { signer, list: published, refused: others } = told.keys;
      const keys = await client.WindowKeys.of(published, signer, store);
      const { keys: named } = JSON.parse(published);
      for (const { fingerprint, role, public: public_ } of named) {
        same("key", hex(keys.key({ window: { name: "", fingerprint } }, role)), public_);
      }
      const window = { name: "", fingerprint: "ab".repeat(16) };
      await refused("no such window", () => keys.key({ window }, "issuer"));
      await refused("no window", () => keys.key({ window: null }, "issuer"));
      const kept = JSON.stringify([...texts]);
      for (const text of [...others, "", "{}", "null", published.replace("1", "7")]) {
        await refused("a list", () => client.WindowKeys.of(text, signer, store));
      }
      await refused("a signer", () => client.WindowKeys.of(published, pem, store));
      same("what was seen", JSON.stringify([...texts]), kept);
      await client.WindowKeys.of(published, signer, store);
    },
  ]);
  return list;
}

function reports(client, internals, plan, { plan: told, secret, cases }) {
  const { unhex, hex } = client;
  return cases.map(({ metric, rows, key, report, words }, i) => [
    `${plan} plan: ${metric}, rows ${i % 5}`,
    async () => {
      if (report !== none) {
        const device = new client.Device(told, {
          secret: unhex(secret),
          open: () => open(client, key),
        });
        same(metric, hex(await device.report(metric, rows)), report);
        return;
      }
      const { encoder, channel } = told.metrics.find((each) => each.name === metric).client;
      let [groups, numbers] = [none, null];
      if (encoder.encoder === "bins") groups = internals.binsOf(encoder, rows);
      else {
        const domains = await Promise.all(
          encoder.columns.map(({ column, domain }) => internals.Domain.of(domain, column)),
        );
        ({ groups, numbers } = internals.groupsOf(encoder, domains, rows));
      }
      const source = await open(client, key);
      same(metric, await client.slotWords(channel, groups, numbers, source), words);
    },
  ]);
}

/** What must fail. */
function refusals(client, { plan, secret, cases }, { key }) {
  const options = { secret: client.unhex(secret) };
  const altered = (change) => {
    const copy = structuredClone(plan);
    change(copy);
    return copy;
  };
  const device = (told, more = {}) => new client.Device(told, { ...options, ...more });
  const listed = (metric) => metric.client.encoder.encoder === "values" && metric.client.encoder.domain.values;
  const olh = plan.metrics.findIndex(listed);
  const row = cases.find((each) => each.metric === plan.metrics[olh].name).rows;
  const { name, client: known } = plan.metrics[olh];
  const others = [...known.encoder.domain.values].reverse();
  const hashed = altered((copy) => (copy.metrics[olh].client.encoder.domain.values = null));
  const attempts = {
    "a later format": () => device(altered((copy) => (copy.format = 2))),
    "no window": () => device(altered((copy) => (copy.window = null))),
    "a short secret": () => device(plan, { secret: new Uint8Array(31) }),
    "a short fingerprint": () =>
      device(altered((copy) => (copy.window.fingerprint = "00"))).report(name, row),
    "no such metric": () => device(plan).report("none", row),
    "a metric that is not written down": () =>
      device(altered((copy) => (copy.metrics[olh].client = null))).report(name, row),
    "an unknown mechanism": () =>
      device(altered((copy) => (copy.metrics[olh].client.channel.channel = "x"))).report(name, row),
    "values that are not listed": () => device(hashed).report(name, row),
    "other values": () =>
      device(hashed, { values: { [known.encoder.column]: others } }).report(name, row),
    "a key of another kind": () => client.PublicKey.of(key.replace("MCowBQYDK2VuAyEA", "MCowBQYDK2VwAyEA")),
    "no key": () => client.PublicKey.of("-----BEGIN PUBLIC KEY-----\n\n-----END PUBLIC KEY-----"),
    "a bound of 0": () => client.integers(new client.SystemSource(), 0n, 1),
    "a bound beyond 2^64": () => client.integers(new client.SystemSource(), (1n << 64n) + 1n, 1),
  };
  const list = Object.entries(attempts).map(([what, made]) => [
    `refused: ${what}`,
    () => refused(what, made),
  ]);
  list.push([
    "only devices that are asked answer",
    async () => {
      const { fingerprint, name: window } = plan.window;
      const mark = { fingerprint: client.unhex(fingerprint), window, place: olh };
      const draw = await client.deviceDraw(options.secret, mark);
      const whether = async (first, last) => {
        const draws = { first: String(first), last: String(last) };
        const told = altered((copy) => (copy.metrics[olh].client.draws = draws));
        return (await device(told).report(name, row)) !== null;
      };
      same("last", await whether(0n, draw), true);
      same("first", await whether(draw, draw), true);
      same("below", await whether(draw + 1n, 2n ** 64n - 1n), false);
      same("above", await whether(0n, draw - 1n), false);
    },
  ]);
  list.push([
    "values that are listed elsewhere",
    async () => {
      const values = { [known.encoder.column]: known.encoder.domain.values };
      const sent = await device(hashed, { values }).report(name, row);
      if (sent.length !== 56) throw new Error("no report was made");
    },
  ]);
  return list;
}
