/** Consent, keeping and sending, in Node and in a browser alike, against an endpoint that is made up. */

const ENDPOINT = "https://endpoint.example/reports";
const MOVED = "https://moved.example/reports";
const FAST = { tries: 3, first: 1, longest: 2 };

/** [name, check] of all; `opened` gives a new and empty store, `again` the same as after a reload. */
export function reporterChecks(client, plan, permanent, key, opened, again) {
  const rows = [{ page: "page 7" }];
  const made = async (store, more = {}) =>
    new client.Reporter({
      plan,
      key: await client.PublicKey.of(key),
      endpoint: ENDPOINT,
      store,
      backoff: FAST,
      ...more,
    });
  const checks = {
    "nothing before consent": async () => {
      const store = await opened();
      const reporter = await made(store);
      const drawn = await drawing(async () => {
        const asked = await answered([204], async () => {
          same(await reporter.report("olh", rows), "no consent");
          same(await reporter.flush(), 0);
          same(await reporter.consented(), false);
        });
        same(asked.length, 0);
      });
      same(drawn, 0);
      same(await store.names(), []);
    },
    "a report is made once and sent once": async () => {
      const store = await opened();
      const reporter = await made(store);
      await reporter.consent();
      const asked = await answered([204], async () => {
        same(await reporter.report("olh", rows), "sent");
        same(await reporter.report("olh", [{ page: "page 8" }]), "sent"); // what was said stands
        same(await (await made(await again(store))).report("olh", rows), "sent");
        same(await reporter.report("mean", [{ fare: 3 }]), "sent");
      });
      same(asked.length, 2);
      same(asked[0].body.length, 28 + 2 + 18 + 8 + 56); // header, size, metric and id, key, seal
      const { method, credentials, referrerPolicy, redirect, headers } = asked[0].init;
      same(
        [method, credentials, referrerPolicy, redirect, headers],
        ["POST", "omit", "no-referrer", "error", undefined],
      );
    },
    "the same bytes are sent again, also after a reload": async () => {
      const store = await opened();
      const reporter = await made(store);
      await reporter.consent();
      const asked = await answered([0, 500, 404, 429, 204], async () => {
        same(await reporter.report("olh", rows), "waiting");
        const later = await made(await again(store), { endpoint: MOVED });
        same(await later.flush(), 0);
        same(await later.flush(), 0);
      });
      same(asked.map(({ endpoint }) => endpoint === MOVED), [false, false, false, true, true]);
      same(new Set(asked.map(({ body }) => client.hex(body))).size, 1);
    },
    "a portal that answers with a page has kept nothing": async () => {
      const reporter = await made(await opened());
      await reporter.consent();
      const page = new TextEncoder().encode("<html>");
      const asked = await answered([page, 200, 202, 204], async () => {
        same(await reporter.report("olh", rows), "waiting");
        same(await reporter.flush(), 0);
      });
      same(asked.length, 4);
    },
    "what is kept is sealed": async () => {
      const store = await opened();
      const reporter = await made(store);
      await reporter.consent();
      const [asked, names] = [await answered([0], () => reporter.report("olh", rows)), await store.names()];
      const texts = await Promise.all(names.map((name) => store.read(name)));
      same(names.length, 2);
      same(/page/.test(texts.join() + names.join()), false);
      const kept = JSON.parse(texts.find((text) => text.startsWith("{")));
      same(Object.keys(kept).sort(), ["body", "collection", "consent", "made"]);
      const consent = await store.read("consent");
      same([consent.length, consent.slice(0, 16)], [80, kept.consent]);
      same(texts.filter((text) => text.includes(consent.slice(16))), [consent]); // the secret
      same(kept.body, client.hex(asked[0].body));
    },
    "a report that is refused is not sent again": async () => {
      for (const status of [400, 409, 410, 413, 422]) {
        const reporter = await made(await opened());
        await reporter.consent();
        const asked = await answered([status, 204], async () => {
          same(await reporter.report("olh", rows), "refused");
          same(await reporter.report("olh", rows), "refused");
          same(await reporter.flush(), 0);
        });
        same(asked.length, 1);
      }
    },
    "a report is dropped after its window, and no other is drawn": async () => {
      const store = await opened();
      const reporter = await made(store);
      await reporter.consent();
      await answered([0], () => reporter.report("olh", rows));
      const [now, day] = [Date.now, 86_400_000];
      const asked = await answered([204], async () => {
        try {
          for (const away of [1 - day, day - 10_000]) {
            Date.now = () => now() + away;
            const other = await made(store, { plan: { ...plan, collection: "another" } });
            same(await other.flush(), 0); // it is not its own
          }
          Date.now = () => now() + day;
          same(await reporter.flush(), 0);
          same(await reporter.report("olh", rows), "expired");
        } finally {
          Date.now = now;
        }
        same(await reporter.report("olh", rows), "expired");
      });
      same(asked.length, 0);
      same(JSON.stringify(await texts(store)).includes("body"), false);
    },
    "withdrawal forgets the secret and what waits": async () => {
      const store = await opened();
      const reporter = await made(store);
      await reporter.consent();
      await answered([0], () => reporter.report("olh", rows));
      await answered([204], () => reporter.report("mean", [{ fare: 3 }]));
      const before = await store.read("consent");
      await reporter.withdraw();
      same(Object.values(await texts(store)).sort(), ["sent", "withdrawn"]);
      const asked = await answered([204], async () => {
        same(await reporter.flush(), 0);
        same(await reporter.report("olh", rows), "no consent");
        await reporter.consent();
        same(await reporter.report("olh", rows), "withdrawn"); // else noise could be drawn at will
        same(await reporter.flush(), 0);
        same(await reporter.report("projective", rows), "sent");
      });
      same(asked.length, 1);
      const after = await store.read("consent");
      same([0, 16].map((at) => before.slice(at, at + 64) === after.slice(at, at + 64)), [false, false]);
      same(await store.read("secret"), null);
    },
    "permanent noise is the same after any number of withdrawals": async () => {
      const store = await opened();
      const sealing = await sealed();
      const withdrawing = async (metrics, names) => {
        for (let day = 0; day < 12; day++) {
          const window = { name: `day ${day}`, fingerprint: day.toString(16).padStart(32, "0") };
          const options = { plan: { ...permanent, metrics, window }, key: sealing.key };
          const reporter = await made(store, options);
          await reporter.consent();
          for (const [name, row] of names) same(await reporter.report(name, [row]), "sent");
          await (await made(store)).withdraw(); // by a plan of fresh noise: the device is the same
        }
      };
      await answered([204], () =>
        withdrawing(permanent.metrics, [["olh", { page: "page 7" }], ["mean", { fare: 3 }]]),
      );
      // A message drawn anew has a hash of 300 and more: that 12 agree has a probability below 1e-20.
      const [olh, mean] = [0, 1].map((k) => sealing.messages.filter((_, i) => i % 2 === k));
      same([olh.length, new Set(olh).size, mean.length, new Set(mean).size], [12, 1, 12, 1]);
      same(Object.keys(await texts(store)).includes("consent"), false);
    },
    "a device that answers one of several metrics answers no other after a withdrawal": async () => {
      const store = await opened();
      const half = 1n << 63n;
      const parts = [[0n, half - 1n], [half, 2n * half - 1n]];
      const metrics = ["olh", "projective"].map((name, i) => {
        const metric = plan.metrics.find((each) => each.name === name);
        const [first, last] = parts[i].map(String);
        return { ...metric, client: { ...metric.client, draws: { first, last } } };
      });
      const reporter = await made(store, { plan: { ...plan, metrics } });
      const outcomes = new Set();
      const asked = await answered([204], async () => {
        for (let k = 0; k < 40; k++) {
          await reporter.consent();
          for (const { name } of metrics) outcomes.add(`${name} ${await reporter.report(name, rows)}`);
          await reporter.withdraw();
        }
      });
      same([asked.length, outcomes.size], [1, 2]); // with new secrets, one answer with 2^-39
    },
    "a withdrawal ends what is being tried, and forgets what is being drawn": async () => {
      const store = await opened();
      const reporter = await made(store, { backoff: { tries: 9, first: 1, longest: 1 } });
      await reporter.consent();
      const asked = await answered([0, () => reporter.withdraw(), 204], () => reporter.report("olh", rows));
      same(asked.length, 2);
      await reporter.consent();
      const once = store.once.bind(store);
      store.once = async (name, text) => {
        if (name.startsWith("report")) await (await made(await again(store))).withdraw(); // another tab
        return once(name, text);
      };
      const later = await answered([204], async () => {
        same(await reporter.report("mean", [{ fare: 3 }]), "withdrawn");
      });
      same(later.length, 0);
      same(await store.read("consent"), null);
      same(JSON.stringify(await texts(store)).includes("body"), false);
    },
    "what a tab leaves that dies after a withdrawal is not sent": async () => {
      const store = await opened();
      const reporter = await made(store);
      await reporter.consent();
      const once = store.once.bind(store);
      store.once = async (name, text) => {
        await (await made(await again(store))).withdraw();
        await once(name, text);
        throw new Error("the tab is closed");
      };
      const asked = await answered([204], async () => {
        same(await reporter.report("olh", rows).catch((error) => error.message), "the tab is closed");
        same(Object.keys(await texts(store)).filter((name) => /consent|secret/.test(name)), []);
        const later = await made(await again(store));
        await later.consent();
        same(await later.flush(), 0);
        same(await later.report("olh", rows), "withdrawn");
      });
      same(asked.length, 0);
      same(JSON.stringify(await texts(store)).includes("body"), false);
    },
    "two at once send one report": async () => {
      const store = await opened();
      const reporters = [await made(store), await made(await again(store))];
      await reporters[0].consent();
      const asked = await answered([204], () =>
        Promise.all(reporters.map((each) => each.report("olh", rows))),
      );
      same(new Set(asked.map(({ body }) => client.hex(body))).size, 1);
    },
    "rows that are nobody's are sent one by one": async () => {
      const rowPlan = { ...plan, one_report: false };
      const store = await opened();
      const reporter = await made(store, { plan: rowPlan });
      await reporter.consent();
      await answered([0], async () => {
        same(await reporter.report("olh", rows), "waiting");
        same(await reporter.report("olh", rows), "waiting");
      });
      const asked = await answered([204], async () => same(await reporter.flush(), 0));
      same(new Set(asked.map(({ body }) => client.hex(body))).size, 2);
      same(await store.names(), ["consent"]);
    },
    "one that waits does not hold up others for long": async () => {
      const reporter = await made(await opened(), { plan: { ...plan, one_report: false } });
      await reporter.consent();
      const asked = await answered([0], async () => {
        for (let k = 0; k < 3; k++) await reporter.report("olh", rows);
        same(await reporter.flush(), 3);
      });
      same(asked.length, 3 * FAST.tries + FAST.tries);
    },
    "rows that do not fit are refused, and nothing is kept of them": async () => {
      for (const more of [{}, { plan: permanent }]) {
        const store = await opened();
        const reporter = await made(store, more);
        await reporter.consent();
        for (const row of [{ pgae: "x" }, { page: 1, bad: 2 }]) {
          const refused = reporter.report("olh", [row]).catch((error) => error.message);
          await reporter.withdraw(); // at once, as the page does not wait
          same(/no column "(pgae|bad)"/.test(await refused), true);
          same(await store.names(), []);
          await reporter.consent();
        }
      }
    },
    "a damaged consent is no consent": async () => {
      const store = await opened();
      const reporter = await made(store);
      await store.write("consent", "0".repeat(79));
      const said = await reporter.report("olh", rows).catch((error) => error.message);
      same(said, "the kept consent is damaged: call withdraw(), then ask the user again");
      await reporter.withdraw();
      same(await reporter.consented(), false);
    },
    "a damaged secret is no secret": async () => {
      const store = await opened();
      await store.write("secret", "0".repeat(63));
      const said = await client.keptSecret(store).catch((error) => error.message);
      same(said, "the kept secret is damaged: remove it");
    },
    "a store keeps what came first": async () => {
      const store = await opened();
      const kept = await Promise.all(["a", "b", "c"].map((text) => store.once("x", text)));
      same(new Set(kept).size, 1);
      same(await (await again(store)).read("x"), kept[0]);
      await store.write("x", "d");
      same(await store.once("x", "e"), "d");
      same(await store.names(), ["x"]);
      await store.remove("x");
      await store.remove("x");
      same(await store.read("x"), null);
      same(await store.names(), []);
    },
    "pauses are drawn below a bound that doubles": async () => {
      const [later, pauses] = [globalThis.setTimeout, []];
      globalThis.setTimeout = (ready, pause) => (pauses.push(pause), ready());
      try {
        const body = new Uint8Array(30);
        await answered([0], async () => {
          for (let k = 0; k < 600; k++) {
            same(await client.post(ENDPOINT, body, { tries: 4, first: 8, longest: 20 }), "waiting");
          }
        });
      } finally {
        globalThis.setTimeout = later;
      }
      // That one of 21 values is not seen in 600 draws has a probability of 4e-12.
      const seen = [0, 1, 2].map((k) => new Set(pauses.filter((_, i) => i % 3 === k)));
      same(seen.map((each) => each.size), [9, 17, 21]);
      same(seen.map((each) => Math.max(...each)), [8, 16, 20]);
    },
  };
  /** A key that seals nothing and keeps what it was given: the words of messages. */
  async function sealed() {
    const messages = [];
    const real = await client.PublicKey.of(key);
    const seal = async (message) => (messages.push(client.hex(message)), new Uint8Array(56));
    return { messages, key: Object.assign(Object.create(real), { seal }) };
  }

  return Object.entries(checks).map(([name, check]) => [`reporter: ${name}`, check]);
}

export async function texts(store) {
  const kept = {};
  for (const name of await store.names()) kept[name] = await store.read(name);
  return kept;
}

/** What is posted while the endpoint answers so, the last again and again; 0 is no answer, bytes are 200. */
export async function answered(statuses, work) {
  const [real, asked] = [globalThis.fetch, []];
  globalThis.fetch = async (endpoint, init) => {
    asked.push({ endpoint, init, body: new Uint8Array(init.body) });
    const status = statuses[Math.min(asked.length, statuses.length) - 1];
    if (typeof status === "function") await status();
    if (status instanceof Uint8Array) return new Response(status, { status: 200 });
    if (!Number(status)) throw new TypeError("no network");
    return new Response(null, { status });
  };
  try {
    await work();
  } finally {
    globalThis.fetch = real;
  }
  return asked;
}

/** How often random bytes are asked of the system. */
async function drawing(work) {
  let times = 0;
  const own = Object.hasOwn(crypto, "getRandomValues") ? crypto.getRandomValues : null;
  const real = crypto.getRandomValues.bind(crypto);
  crypto.getRandomValues = (array) => ((times += 1), real(array));
  try {
    await work();
  } finally {
    if (own === null) delete crypto.getRandomValues;
    else crypto.getRandomValues = own;
  }
  return times;
}

export function same(made, wanted) {
  const [left, right] = [made, wanted].map((each) => JSON.stringify(each));
  if (left !== right) throw new Error(`${left} is not ${right}`);
}
