/** Rows, values and secrets that are refused, in Node and in a browser alike. */

const CANARY = "canary 7171"; // a value, which no message may tell

/** [name, check] of all; the plans are those of the vectors. */
export function rowChecks(client, fresh, counters, key) {
  const secret = crypto.getRandomValues(new Uint8Array(32));
  const device = (plan, more = {}) => new client.Device(plan, { secret, ...more });
  const page = (row) => () => device(fresh).report("olh", [row]);
  const fare = (row) => () => device(fresh).report("mean", [row]);
  const slots = async (row) =>
    device(counters).sealed("apart", [row], await client.PublicKey.of(key));
  const column = (value) => page({ page: value });
  const number = (value) => fare({ fare: value });
  const takesPage = /^metric olh, column "page": takes a string, a finite number or a boolean, or null/;
  const takesFare = /^metric mean, column "fare": takes a number, or null/;
  const other = (name) => new RegExp(`^metric olh has no column ${name}: its columns are page$`);
  const lacking = /^metric olh, column "page": a row lacks it: null says "missing"$/;
  const plain = /^metric olh: each row must be a plain object$/;
  const list = /^metric olh: rows must be a list of objects$/;

  const refused = {
    "a misspelt column": [page({ pgae: CANARY }), other('"pgae"')],
    "a column of another metric": [page({ page: "page 1", fare: 7171 }), other('"fare"')],
    "a column with a line feed": [page({ page: null, "a\nb": CANARY }), other('"a\\\\nb"')],
    "a symbol for a column": [page({ page: null, [Symbol(CANARY)]: 1 }), other("that is a symbol")],
    "a column that is hidden from loops": [
      page(Object.defineProperty({ page: null }, "more", { value: CANARY })),
      other('"more"'),
    ],
    "__proto__ from JSON": [page(JSON.parse('{"page": null, "__proto__": 1}')), other('"__proto__"')],
    "a constructor": [page({ page: null, constructor: CANARY }), other('"constructor"')],
    "no column": [page({}), lacking],
    "a column of the prototype": [page(Object.create({ page: CANARY })), plain],
    "a Map": [page(new Map([["page", CANARY]])), plain],
    "a Date as a row": [page(new Date(7171)), plain],
    "an instance": [page(new (class { page = CANARY; })()), plain],
    "an array as a row": [page([CANARY]), plain],
    "a text as a row": [page(CANARY), plain],
    "null as a row": [page(null), plain],
    "a hole among rows": [() => device(fresh).report("olh", [, { page: null }]), plain],
    "rows that are one row": [() => device(fresh).report("olh", { page: CANARY }), list],
    "rows that are a text": [() => device(fresh).report("olh", CANARY), list],
    "a getter that throws": [
      page({ get page() { throw new Error(CANARY); } }),
      /^metric olh, column "page": a row's getter failed$/,
    ],
    undefined: [column(undefined), takesPage],
    "an object": [column({ toString: () => CANARY }), takesPage],
    "an array": [column([CANARY]), takesPage],
    "a function": [column(() => CANARY), takesPage],
    "a symbol": [column(Symbol(CANARY)), takesPage],
    "a bigint": [column(7171n), takesPage],
    "a boxed string": [column(new String(CANARY)), takesPage],
    "a Date": [column(new Date(7171)), takesPage],
    "NaN among values": [column(NaN), takesPage],
    "an infinity among values": [column(-Infinity), takesPage],
    "a text for a number": [number("7171"), takesFare],
    "a boolean for a number": [number(true), takesFare],
    "a boxed number": [number(new Number(7171)), takesFare],
    "a bigint for a number": [number(7171n), takesFare],
    "a Date for a number": [number(new Date(7171)), takesFare],
    "undefined for a number": [number(undefined), takesFare],
    "a counter without its group": [
      () => slots({ fare: 7171 }),
      /^metric apart, column "hour": a row lacks it/,
    ],
    "a counter's text for a number": [
      () => slots({ hour: 3, fare: CANARY }),
      /^metric apart, column "fare": takes a number/,
    ],
    "a counter's other column": [
      () => slots({ hour: 3, fare: 1, page: CANARY }),
      /^metric apart has no column "page": its columns are hour, fare$/,
    ],
    "a secret of zeros": [() => device(fresh, { secret: new Uint8Array(32) }), /32 random bytes, never all the same$/],
    "a secret of one byte": [
      () => device(fresh, { secret: new Uint8Array(32).fill(7) }),
      /32 random bytes, never all the same$/,
    ],
    "a long secret": [() => device(fresh, { secret: new Uint8Array(33) }), /a Uint8Array of 32 random bytes/],
    "no secret": [() => device(fresh, { secret: undefined }), /a Uint8Array of 32 random bytes/],
    "a secret in hex": [() => device(fresh, { secret: "ab".repeat(16) }), /a Uint8Array of 32/],
    "a secret of numbers": [() => device(fresh, { secret: Array(32).fill(1) }), /a Uint8Array of 32/],
  };
  const list_ = Object.entries(refused).map(([what, [made, wanted]]) => [
    `rows: ${what} is refused`,
    async () => {
      const said = await message(made);
      if (!wanted.test(said)) throw new Error(`it says ${said}`);
      if (/canary|7171|\n/.test(said)) throw new Error(`a value is told: ${said}`);
    },
  ]);

  const open = () => client.Keystream.open(new Uint8Array(32).fill(3));
  const same = async (name, one, two) => {
    const [left, right] = [
      await device(fresh, { open }).report(name, [one]),
      await device(fresh, { open }).report(name, [two]),
    ];
    if (client.hex(left) !== client.hex(right)) throw new Error("they are reported differently");
  };
  let reads = 0;
  const counted = { get page() { return (reads += 1), "page 7"; } };
  const bare = Object.assign(Object.create(null), { page: "page 7" });
  return list_.concat([
    ["rows: -0 is 0", () => same("mean", { fare: -0 }, { fare: 0 })],
    ["rows: NaN is missing among numbers", () => same("mean", { fare: NaN }, { fare: null })],
    ["rows: infinity is missing among numbers", () => same("mean", { fare: Infinity }, { fare: null })],
    ["rows: an integer is its decimals", () => same("grr", { hour: 3 }, { hour: "3" })],
    ["rows: no prototype", () => same("olh", bare, { page: "page 7" })],
    [
      "rows: a getter is read once",
      async () => {
        await same("olh", counted, { page: "page 7" });
        if (reads !== 1) throw new Error(`it was read ${reads} times`);
      },
    ],
    [
      "rows: a secret is copied",
      async () => {
        const own = new Uint8Array(secret);
        const one = device(fresh, { secret: own, open });
        const before = client.hex(await one.report("olh", [bare]));
        own.fill(9);
        if (before !== client.hex(await one.report("olh", [bare]))) throw new Error("it is not");
      },
    ],
    [
      "rows: a column may be called __proto__ or constructor",
      async () => {
        for (const name of ["__proto__", "constructor"]) {
          const plan = structuredClone(fresh);
          plan.metrics.find((each) => each.name === "olh").client.encoder.column = name;
          const row = JSON.parse(`{"${name}": "page 7"}`);
          const sent = await device(plan, { open }).report("olh", [row]);
          const wanted = await device(fresh, { open }).report("olh", [bare]);
          if (client.hex(sent) !== client.hex(wanted)) throw new Error(`${name} is not read`);
          const said = await message(() => device(plan).report("olh", [{}]));
          if (!said.includes("lacks it")) throw new Error(said);
        }
      },
    ],
  ]);
}

async function message(made) {
  try {
    await made();
  } catch (error) {
    return error.message;
  }
  throw new Error("it was not refused");
}
